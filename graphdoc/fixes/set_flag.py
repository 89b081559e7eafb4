"""Give a flag another value where it is set: ``p.requires_grad = False`` → ``p.requires_grad = True``.

Args:
    place: the assignment.
    value: the new value as Python source.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, required, statement
from graphdoc.source.places import Edit

KIND = "set_flag"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    value = str(required(args, "value"))
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        raise CannotFix("no flag is set there")
    if repr(node.value.value) == value:
        raise CannotFix(f"the flag is {value} already")
    start, end = source.span(node.value)
    return [Edit(source.file, start, end, value)]
