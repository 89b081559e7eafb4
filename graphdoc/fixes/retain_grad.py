"""Keep the gradient of a tensor that is no leaf: ``h.retain_grad()`` behind the statement that makes it.

Args:
    place: the statement that binds the name, or an expression in it.
    name: the tensor's name or path.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.paths import is_path, parse_expression
from graphdoc.source.places import Edit

KIND = "retain_grad"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    name = str(required(args, "name"))
    wanted = parse_expression(name)
    if wanted is None or not is_path(wanted):
        raise CannotFix(f"{name} is no name or attribute")
    if isinstance(owner, ast.Return | ast.Raise):
        raise CannotFix("nothing behind that statement is ever reached")
    text = f"{name}.retain_grad()"
    block, index = source.node_block(owner) or ([], 0)
    if index + 1 < len(block) and ast.unparse(block[index + 1]) == text:
        raise CannotFix(f"the gradient of {name} is already kept there")
    if isinstance(owner, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
        return insert_before(source, owner.body[0], [text])
    return insert_after(source, owner, [text])
