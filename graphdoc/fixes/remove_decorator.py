"""Take a decorator off a function.

Args:
    place: the decorator, or the function (or anything in it) together with ``name``.
    name: the decorator's last name (``no_grad``), where ``place`` is not the decorator itself.
"""

from __future__ import annotations

from graphdoc.fixes.contexts import decorator_at
from graphdoc.fixes.fix_kind import Args, Sources, required
from graphdoc.source.edits import drop_decorator
from graphdoc.source.places import Edit

KIND = "remove_decorator"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, function, decorator = decorator_at(sources, required(args, "place"), args.get("name"))
    return drop_decorator(source, function, decorator)
