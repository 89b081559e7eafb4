"""A state that another pass renews between an update's step and the next update: cut behind that pass."""

from __future__ import annotations

from typing import Any

from graphdoc.evidence import Frame, Node
from graphdoc.finding import Remedy
from graphdoc.program.lookup import node_with
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.remedies.constant_value import together
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def renewed_outside(nodes: list[Node], reuse: Reuse, call: Frame) -> bool:
    """Whether a pass that this function does not run (an evaluation in between) has renewed the value since the update
    that this function did run: behind its step it has no graph yet, and at the next update it has one again."""

    def runs(number: int) -> bool:
        node = node_with(nodes, number)
        return node is not None and any((f.file, f.function) == (call.file, call.function) for f in node.stack)

    return any(runs(c.producer) and not runs(c.consumer) for c in reuse.carries)


def detach_behind_renewal(
    program: Program, reuse: Reuse, call: Frame, anchor: Frame, paths: list[tuple[str, Any]]
) -> list[Remedy]:
    """Cut where the pass in between has ended; behind the update as well where that pass may be left out."""
    source = Source(call.file, program.sources.get(call.file, ""))
    update = source.node_statement(Place.of(anchor))
    behind: list[Frame] = []
    for node in (program.node(c.consumer) for c in reuse.carries):
        frame = next(
            (f for f in (node.stack if node else ()) if (f.file, f.function) == (call.file, call.function)), None
        )
        if frame is not None and frame.line not in (call.line, *(f.line for f in behind)):
            behind.append(frame)
    if not behind or update is None:
        return []
    block = source.node_block(update)
    renewals = [source.node_statement(Place.of(f)) for f in behind]
    always = block is not None and all(any(s is r for s in block[0]) for r in renewals)
    places = behind if always else [anchor, *behind]
    shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
    edits = [{"kind": "detach_after", "args": {"after": place(f), "paths": [list(p) for p in paths]}} for f in places]
    return [
        together(
            edits,
            f"detach {shown} after the call at {' and '.join(where(f) for f in places)}",
            "The values go on into the next iteration; gradients stop there, also those through the pass between two "
            "updates, and every parameter still gets its gradient from the current iteration.",
        )
    ]
