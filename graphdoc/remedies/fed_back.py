"""A state that one statement reads from an attribute and binds anew, cut where the statement takes it up again."""

from __future__ import annotations

from typing import Any

from graphdoc.finding import Remedy
from graphdoc.program.carried_names import fed_back
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.story.older_graph import distinct_carries
from graphdoc.story.wording import listing


def detach_fed_back(program: Program, reuse: Reuse) -> list[Remedy]:
    """For a value that nobody holds any more, made and taken up by one line that was reached from several places."""
    edits: list[dict[str, Any]] = []
    names: list[str] = []
    at = ""
    for c in distinct_carries(program.nodes, reuse.carries):
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        used = innermost_user(consumer.stack) if consumer is not None else None
        made = innermost_user(producer.stack) if producer is not None else None
        if used is None or made is None or c.tensor.holders or used.start != made.start:
            return []
        kept = fed_back(program.sources, used)
        if not kept:
            return []
        edit = {
            "kind": "detach_expression",
            "args": {"place": place(used), "operands": [[name, "tensor"] for name in kept]},
        }
        if edit not in edits:
            edits.append(edit)
            names += kept
            at = at or where(used)
    if not edits:
        return []
    note = "The values go on into the next pass; gradients stop at each run of that line."
    title = f"detach {listing(f'`{n}`' for n in names)} where {at} takes them up again"
    return [
        Remedy(
            "several", title if len(names) > 1 else title.replace(" them ", " it "), "unsafe", note, {"edits": edits}
        )
    ]
