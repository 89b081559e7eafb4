"""Several edits as one patch; where one of them cannot be made, none is.

Args:
    edits: list of ``{"kind": …, "args": …}``. All positions refer to the original text; an edit asked for twice is
        made once.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required
from graphdoc.fixes.kinds import edits as edits_of
from graphdoc.source.places import Edit

KIND = "several"


def edit(sources: Sources, args: Args) -> list[Edit]:
    found: list[list[Edit]] = []
    for part in required(args, "edits"):
        own = edits_of(str(part["kind"]), sources, part["args"])
        if own not in found:
            found.append(own)
    if not found:
        raise CannotFix("no edit was asked for")
    return [e for own in found for e in own]
