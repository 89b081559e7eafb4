"""Clone at the use: ``.clone()`` on an expression, or on operands inside it.

Args:
    place: the expression.
    operands: optional; texts of the operands inside it that are cloned instead, as for ``detach_expression``.
    structure: of the expression or of the operands given as strings, as for ``detach_expression``.
"""

from __future__ import annotations

from graphdoc.fixes.detach_expression import convert
from graphdoc.fixes.fix_kind import Args, Sources
from graphdoc.source.places import Edit

KIND = "clone_expression"
ONLY_RECORDS = True
KEEPS_NUMBERS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    return convert(sources, args, "clone")
