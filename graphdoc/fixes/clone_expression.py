"""Clone at the use: like ``detach_expression`` (same args: place, operands, structure), with ``.clone()``."""

from __future__ import annotations

from graphdoc.fixes.base import Args, Sources
from graphdoc.fixes.detach_expression import convert
from graphdoc.source.places import Edit

KIND = "clone_expression"
KEEPS_NUMBERS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    return convert(sources, args, "clone")
