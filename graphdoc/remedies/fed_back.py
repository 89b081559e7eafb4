"""A state that one statement reads from an attribute and binds anew, cut where the statement takes it up again."""

from __future__ import annotations

from typing import Any

from graphdoc.finding import Remedy
from graphdoc.program.carried_names import fed_back
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.remedies.constant_value import frame_at
from graphdoc.remedies.in_place_write import together
from graphdoc.story.older_graph import distinct_carries
from graphdoc.story.wording import listing


def detach_fed_back(program: Program, reuse: Reuse) -> list[Remedy]:
    """For a value that nobody holds any more, made and taken up by one line that was reached from several places."""
    edits: list[dict[str, Any]] = []
    for c in distinct_carries(program.nodes, reuse.carries):
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        used = innermost_user(consumer.stack) if consumer is not None else None
        made = innermost_user(producer.stack) if producer is not None else None
        kept = fed_back(program.sources, used) if used is not None else []
        if used is None or made is None or c.tensor.holders or used.start != made.start or not kept:
            return []
        operands = [[name, "tensor"] for name in kept]
        edits.append({"kind": "detach_expression", "args": {"place": place(used), "operands": operands}})
    if not edits:
        return []
    names = dict.fromkeys(name for edit in edits for name, _ in edit["args"]["operands"])
    at, them = where(frame_at(edits[0]["args"]["place"])), "them" if len(names) > 1 else "it"
    title = f"detach {listing(f'`{n}`' for n in names)} where {at} takes {them} up again"
    note = "The values go on into the next pass; gradients stop at each run of that line."
    return together(edits, title, "unsafe", note)
