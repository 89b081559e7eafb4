"""Make a call once more, before a statement that leaves it out: ``scaler.update()`` before a ``continue``.

Args:
    place: the statement before which the call is made as well.
    call: the statement that is the call, in the same function.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import copied, insert_before
from graphdoc.source.places import Edit

KIND = "repeat_before"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    other, repeated = statement(sources, required(args, "call"))
    if not isinstance(repeated, ast.Expr) or not isinstance(repeated.value, ast.Call):
        raise CannotFix("what is to be repeated is no call that stands alone")
    if other is not source or source.node_function(node) is not source.node_function(repeated):
        raise CannotFix("the call stands in another function")
    found = source.node_block(node)
    before = found[0][: found[1]] if found is not None else []
    if any(ast.dump(b) == ast.dump(repeated) for b in before):
        raise CannotFix("the call is made there already")
    return insert_before(source, node, [copied(source, repeated)])
