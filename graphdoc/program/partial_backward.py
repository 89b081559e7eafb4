"""Backward calls that cannot have reached every parameter: an error ended them, or they were given ``inputs``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program.bindings import argument, call_at
from graphdoc.program.calls_in_order import site
from graphdoc.program.spans import innermost_user


@dataclass(frozen=True)
class Partial:
    """The user's line that makes the call, and whether an error ended it; otherwise ``inputs`` named its leaves.

    ``alone``: no other line of the run calls backward, so it was the graph of the same module.
    """

    place: Frame
    failed: bool
    alone: bool


def partial_backward(sources: SourceTexts, calls: Sequence[Event]) -> Partial | None:
    """The last backward call among these, oldest first; None where nothing kept it from any leaf."""
    backward = [e for e in calls if e.kind == "backward"]
    last = backward[-1] if backward else None
    place = innermost_user(last.stack) if last is not None else None
    if last is None or place is None:
        return None
    if last.failed or asks_for_some(sources, last):
        return Partial(place, last.failed, len({site(e.stack) for e in backward}) == 1)
    return None


def asks_for_some(sources: SourceTexts, call: Event) -> bool:
    """Whether the user's call names the leaves that it is to reach (``inputs`` of ``torch.autograd.backward``)."""
    return argument(call_at(sources, innermost_user(call.stack)), 3, "inputs") is not None
