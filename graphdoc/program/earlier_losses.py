"""What earlier backward calls began at, as the user knows it: the loss, also where a package scaled it by a number."""

from __future__ import annotations

from graphdoc.evidence import Event, Package
from graphdoc.evidence.lookup import package_of

_SCALING = ("DivBackward0", "MulBackward0")
MOST_SCALED = 2
"""Scalings of one loss, one right after the other: by the steps it accumulates over, and by the gradient scaler."""


def roots_of(events: list[Event], packages: list[Package]) -> set[int]:
    """The sequence numbers of the roots of all backward calls, and of what a package made a root of by scaling it."""
    out: set[int] = set()
    for event in events:
        if event.kind == "backward" and event.root >= 0:
            out.add(event.root)
            if event.root_op in _SCALING and _by_package(packages, event):
                # Nodes are numbered as they are made, and nothing is made between a loss and its scaling.
                out.update(n for n in range(event.root - MOST_SCALED, event.root) if n >= 0)
    return out


def _by_package(packages: list[Package], event: Event) -> bool:
    for frame in reversed(event.stack):
        if frame.user:
            return False
        if package_of(packages, frame.file) is not None:
            return True
    return False
