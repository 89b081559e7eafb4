"""Record gradients again: remove whatever switches them off at a place.

A decorator line goes, a ``with`` block is dissolved, ``torch.set_grad_enabled(False)`` as a statement is removed.

Args:
    place: the decorator, the expression of the ``with``, or the call of ``set_grad_enabled``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import SWITCHES, last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.remove_context import edit as remove_context
from graphdoc.fixes.remove_decorator import edit as remove_decorator
from graphdoc.source.edits import delete
from graphdoc.source.places import Edit

KIND = "remove_switch"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    if isinstance(node, ast.Expr) and last_name(node.value) in (*SWITCHES, "_set_grad_enabled"):
        return delete(source, node)
    only_place = {"place": args["place"]}
    for remove in (remove_decorator, remove_context):
        try:
            return remove(sources, only_place)
        except CannotFix as e:
            reason = e
    raise reason
