"""Take a keyword argument (``retain_graph=True``) out of a call.

Args:
    place: the call.
    name: the keyword.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import drop_arguments
from graphdoc.source.places import Edit

KIND = "drop_keyword"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    name = str(required(args, "name"))
    edits = drop_arguments(source, node, lambda _, keyword: keyword == name)
    if not edits:
        raise CannotFix(f"the call has no {name}")
    return edits
