"""Draw a sample that gradients pass: ``dist.sample()`` → ``dist.rsample()`` (distributions that have it).

Args:
    place: the call of ``sample``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import rename
from graphdoc.source.places import Edit

KIND = "rsample"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "sample":
        raise CannotFix("no sample is drawn there")
    return [rename(source, node.func, "rsample")]
