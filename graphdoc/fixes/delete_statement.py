"""Remove a statement: a repeated backward, ``loss.requires_grad = True``, a forgotten ``set_grad_enabled(False)``.

Args:
    place: the statement, or an expression in it.
"""

from __future__ import annotations

from graphdoc.fixes.base import Args, CannotFix, Sources, required, statement
from graphdoc.source.blocks import delete, is_compound
from graphdoc.source.places import Edit

KIND = "delete_statement"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    if is_compound(node):
        raise CannotFix("a whole block is not removed")
    return delete(source, node)
