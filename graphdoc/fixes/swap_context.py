"""Put another grad mode on a block: ``with torch.inference_mode():`` → ``with torch.no_grad():``.

Args:
    place: the expression of the ``with`` statement, or anything in its body.
    old: the last name of what is there, ``inference_mode`` by default.
    new: its replacement in ``torch``, ``no_grad`` by default.
"""

from __future__ import annotations

from graphdoc.fixes.contexts import item_at, renamed
from graphdoc.fixes.fix_kind import Args, Sources, required
from graphdoc.source.places import Edit

KIND = "swap_context"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, _, item = item_at(sources, required(args, "place"), args.get("old", "inference_mode"))
    return renamed(source, item.context_expr, str(args.get("new", "no_grad")))
