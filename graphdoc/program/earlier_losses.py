"""What earlier backward calls began at, as the user knows it: the loss, also where a package scaled it by a number."""

from __future__ import annotations

from graphdoc.evidence import Event, Node, OlderEdge, Package
from graphdoc.evidence.lookup import package_of

_SCALING = ("DivBackward0", "MulBackward0")
MOST_SCALED = 2
"""Scalings of one loss, one right after the other: by the steps it accumulates over, and by the gradient scaler."""


def roots_of(events: list[Event], packages: list[Package]) -> set[tuple[int, int]]:
    """The roots of all backward calls, and what a package made a root of by scaling it: the sequence number of each
    node, and which of its outputs it is (-1: not known)."""
    out: set[tuple[int, int]] = set()
    for event in events:
        if event.kind == "backward" and event.root >= 0:
            out |= event.roots
            if event.root_op in _SCALING and _by_package(packages, event):
                # Nodes are numbered as they are made, and nothing is made between a loss and its scaling.
                out.update((n, -1) for n in range(event.root - MOST_SCALED, event.root) if n >= 0)
    return out


def leads_to(carry: OlderEdge, producer: Node | None, roots: set[tuple[int, int]]) -> bool:
    """Whether an edge is into the very tensor that a call started from: the node, and the output of it."""
    if producer is None:
        return False
    outputs = {number for sequence, number in roots if sequence == producer.sequence}
    return bool(outputs) and (not carry.outputs or -1 in outputs or bool(outputs & set(carry.outputs)))


def _by_package(packages: list[Package], event: Event) -> bool:
    for frame in reversed(event.stack):
        if frame.user:
            return False
        if package_of(packages, frame.file) is not None:
            return True
    return False
