"""Return these values: ``return g`` → ``return g, grad_w``; where a function ends without a return, one is added.

Args:
    place: the ``return`` statement, or the function at whose end it is missing.
    values: the source of each value.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import insert_after, instead
from graphdoc.source.module import Function
from graphdoc.source.places import Edit

KIND = "return_values"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    text = ", ".join(str(v) for v in required(args, "values"))
    if isinstance(node, Function):
        return insert_after(source, node.body[-1], [f"return {text}"])
    if not isinstance(node, ast.Return):
        raise CannotFix("no return stands there")
    return instead(source, node, [f"return {text}"])
