"""Take statements out of a ``with torch.no_grad():`` block; of several items only the one goes.

Args:
    place: the expression of the ``with`` statement, or anything in its body.
    name: the last name of the item (``no_grad``), where ``place`` is not the item itself.
"""

from __future__ import annotations

from graphdoc.fixes.contexts import item_at
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required
from graphdoc.source.edits import drop_item, unwrap
from graphdoc.source.places import Edit

KIND = "remove_context"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node, item = item_at(sources, required(args, "place"), args.get("name"))
    if len(node.items) == 1:
        return unwrap(source, node)
    if item.optional_vars is not None:
        raise CannotFix("the block uses what the item gives it")
    return drop_item(source, node, item)
