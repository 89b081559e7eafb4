"""Working on a copy of data that outlive the pass, where a pass writes its results, graph and all, into them."""

from __future__ import annotations

from graphdoc.evidence import Node, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.story.older_graph_places import aliases, is_entry

_KEPT = "whether the data are to keep what a pass writes into them, no run tells"


def copy_of_entry(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> list[Remedy]:
    """Work on a copy of an entry instead of writing this pass's results, graph and all, into the data itself."""
    note = "The data keep their values; each pass writes its results, graph and all, into a copy of its own."
    out: list[Remedy] = []
    for frame in aliases(sources, nodes, reuse)[:1]:
        what, left = ("entry", "") if is_entry(sources, frame) else ("data", _KEPT)
        title = f"take a copy of the {what}, at {where(frame)}"
        out.append(Remedy("clone_expression", title, "unsafe", note, {"place": place(frame), "caller": True}, left))
    return out
