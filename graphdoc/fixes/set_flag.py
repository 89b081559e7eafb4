"""Give a flag another value where it is set (``p.requires_grad = False`` → ``= True``), or its right name.

Args:
    place: the assignment.
    value: the new value as Python source; or
    attribute: the name of the flag, where another one was set.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import rename, write
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

KIND = "set_flag"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    if args.get("attribute"):
        return _spelled(source, node, str(args["attribute"]))
    value = str(required(args, "value"))
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        raise CannotFix("no flag is set there")
    if repr(node.value.value) == value:
        raise CannotFix(f"the flag is {value} already")
    return [write(source, node.value, value)]


def _spelled(source: Source, node: ast.stmt, name: str) -> list[Edit]:
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(target, ast.Attribute):
        raise CannotFix("no attribute is set there")
    return [rename(source, target, name)]
