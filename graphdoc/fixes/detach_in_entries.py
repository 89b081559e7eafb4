"""Detach what the entries of a list keep on attributes: one loop behind a statement.

``for layer in cache.layers: layer.keys = layer.keys.detach()`` gives each of them its detached value.

Args:
    after: the place of the statement behind which it is done.
    entries: the list, as the code there spells it.
    kept: the attributes of each entry.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, Sources, anchored, required
from graphdoc.source.edits import insert_after
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name

KIND = "detach_in_entries"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, anchor, _ = anchored(sources, args)
    entries = required(args, "entries")
    last = entries.rpartition(".")[2]
    one = fresh_name(source, last.removesuffix("s") if last.endswith("s") and last.isidentifier() else "entry", "kept")
    lines = [f"for {one} in {entries}:", *(f"    {one}.{k} = {one}.{k}.detach()" for k in required(args, "kept"))]
    return insert_after(source, anchor, ["\n".join(lines)])
