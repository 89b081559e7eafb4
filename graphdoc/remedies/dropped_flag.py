"""A remedy together with taking out ``retain_graph=True``, which kept the graph that it parts from."""

from __future__ import annotations

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import innermost_user, place
from graphdoc.source.module import Source


def with_flag_dropped(
    sources: SourceTexts, events: list[Event], found: Overwrite, remedies: list[Remedy]
) -> list[Remedy]:
    """Each remedy together with taking ``retain_graph=True`` out of the calls that have it; then as it is."""
    drops = [
        {"kind": "drop_keyword", "args": {"place": place(f), "name": "retain_graph"}}
        for f in flagged_calls(sources, events, found)
    ]
    if not drops:
        return remedies
    out = []
    for r in remedies:
        if r.safety == "display":
            out.append(r)
            continue
        out.append(
            Remedy(
                "several",
                f"{r.title}, and drop retain_graph=True",
                "unsafe",
                f"{r.note} Each call then frees the graph that it has walked.".strip(),
                {"edits": [*r.parts, *drops]},
                r.open,
            )
        )
    return [*out[:5], *remedies[:2]]


def flagged_calls(sources: SourceTexts, events: list[Event], found: Overwrite) -> list[Frame]:
    """The places of the calls that kept this very graph, the failing one included, where the flag is written."""
    out: list[Frame] = []
    keeping = {e.index for e in found.keeping_calls}
    if not keeping:
        return out
    failing = found.failing.index if found.failing is not None else -1
    for e in events:
        own = e.index in keeping or e.index == failing
        frame = innermost_user(e.stack) if own and e.retain_graph and e.kind == "backward" else None
        if frame is None or any(f.start == frame.start for f in out):
            continue
        call = Source(frame.file, sources.get(frame.file, "")).call_at(frame)
        if call is not None and any(a.keyword == "retain_graph" for a in call.arguments):
            out.append(frame)
    return out
