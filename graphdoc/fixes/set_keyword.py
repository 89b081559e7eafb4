"""Give a call a keyword argument (``create_graph=True``), in place of the value that it has.

Args:
    place: the call.
    name: the keyword.
    value: its value as Python source (``"True"``), or True, False, None, a number.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import set_keyword
from graphdoc.source.places import Edit

KIND = "set_keyword"


def only_records(args: Args) -> bool:
    """A graph for a gradient, or a flag, takes nothing away; of other keywords that is not known."""
    return args.get("name") in ("create_graph", "requires_grad") and args.get("value") in (True, "True")


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    name = str(required(args, "name"))
    value = args.get("value", "True")
    edits = set_keyword(source, node, name, value if isinstance(value, str) else repr(value))
    if not edits:
        raise CannotFix(f"the call already has {name}={value}")
    return edits
