"""Take statements out of a ``with torch.no_grad():`` block; of several items only the one goes.

Args:
    place: the expression of the ``with`` statement, or anything in its body.
    name: the last name of the item (``no_grad``), where ``place`` is not the item itself.
"""

from __future__ import annotations

from graphdoc.fixes.contexts import item_at
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required
from graphdoc.source.edits import unwrap
from graphdoc.source.places import Edit
from graphdoc.source.tokens import outer_span

KIND = "remove_context"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node, item = item_at(sources, required(args, "place"), args.get("name"))
    if len(node.items) == 1:
        return unwrap(source, node)
    index = next(i for i, other in enumerate(node.items) if other is item)
    if item.optional_vars is not None:
        raise CannotFix("the block uses what the item gives it")

    def bounds(at: int) -> tuple[int, int]:
        other = node.items[at]
        start, end = outer_span(source, other.context_expr)
        return start, outer_span(source, other.optional_vars)[1] if other.optional_vars is not None else end

    if index:
        return [Edit(source.file, bounds(index - 1)[1], bounds(index)[1], "")]
    return [Edit(source.file, bounds(0)[0], bounds(1)[0], "")]
