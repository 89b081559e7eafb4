"""Put another grad mode on a function: ``@torch.inference_mode()`` → ``@torch.no_grad()``.

Args:
    place: the decorator, or the function or anything in it.
    old: the decorator's last name, ``inference_mode`` by default.
    new: its replacement in ``torch``, ``no_grad`` by default.
"""

from __future__ import annotations

from graphdoc.fixes.contexts import decorator_at, renamed
from graphdoc.fixes.fix_kind import Args, Sources, required
from graphdoc.source.places import Edit

KIND = "swap_decorator"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, _, decorator = decorator_at(sources, required(args, "place"), args.get("old", "inference_mode"))
    return renamed(source, decorator, str(args.get("new", "no_grad")))
