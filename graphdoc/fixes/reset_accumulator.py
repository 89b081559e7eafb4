"""Start an accumulator anew: ``total = 0`` before or behind a statement.

Args:
    place: the statement (a loop) before which it is set.
    after: instead of ``place``: the statement (a step) behind which it is set.
    name: the accumulator's name or attribute path.
    value: Python source of the start value, ``"0"`` by default.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.paths import is_path, parse_expression
from graphdoc.source.places import Edit

KIND = "reset_accumulator"


def edit(sources: Sources, args: Args) -> list[Edit]:
    after = args.get("after") is not None
    source, node = statement(sources, args["after"] if after else required(args, "place"))
    name, value = str(required(args, "name")), str(args.get("value", "0"))
    target = parse_expression(name)
    if target is None or not is_path(target):
        raise CannotFix(f"{name} cannot be assigned")
    text = f"{name} = {value}"
    if after:
        return insert_after(source, node, [text])
    found = source.node_block(node)
    before = found[0][found[1] - 1] if found is not None and found[1] else None
    if before is not None and ast.unparse(before) == ast.unparse(ast.parse(text)):
        raise CannotFix(f"{name} is already set there")
    return insert_before(source, node, [text])
