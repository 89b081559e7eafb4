"""Whether a patched run failed as the original did, or got past that failure and met another one."""

from __future__ import annotations

from collections.abc import Callable

from graphdoc.evidence import Cut, Event, Evidence, Frame, Node, OlderEdge, Raised, Stale
from graphdoc.evidence.lookup import node_with
from graphdoc.processes import same_failure
from graphdoc.program.bad_values import trouble_of
from graphdoc.program.spans import innermost_user
from graphdoc.verify.traces import Line

Back = Callable[[Line], Line]
"""The line of the original that a line of the patched text is."""


def fails_alike(original: Evidence, later: Evidence, back: Back) -> bool:
    """Whether the later failure is the original one: the same message from the same call, and of all that was damaged
    then, nothing has been mended.

    Messages alone do not tell: the next weight that is stepped too early has the same words. A failure of which a part
    is gone is another one, and what is left of it is the next thing to mend.
    """
    if not same_failure(original, later) or fails_elsewhere(original, later, back):
        return False
    was = damage(original.nodes, original.stale, _edges(original), lambda line: line)
    left = damage(later.nodes, later.stale, _edges(later), back)
    if not was:
        # No edge leads into what was freed where all of the graph was: then the node at which the engine stopped tells.
        was, left = met(original.failing_node, lambda line: line), met(later.failing_node, back)
    if original.probe and original.probe == later.probe:
        was, left = was | cuts_of(original.cuts, lambda line: line), left | cuts_of(later.cuts, back)
    return was <= left


def fails_elsewhere(original: Evidence, later: Evidence, back: Back) -> bool:
    """Whether the later failure came from another call than the original one: a fault of its own."""
    one, other = _call(original.failing_call, original.raised), _call(later.failing_call, later.raised)
    return one is not None and other is not None and one != back(other)


def damage(
    nodes: list[Node], overwritten: list[Stale], edges: list[OlderEdge], back: Back
) -> frozenset[tuple[object, ...]]:
    """What the failing graph needs and no longer has: overwritten tensors by where they are used and by each line that
    wrote them, where these are known, and the edges into parts that were freed, by where both ends were made.
    """
    found: set[tuple[object, ...]] = set()
    for stale in overwritten:
        used = _made(node_with(nodes, stale.node), back)
        for writer in {_innermost(w.stack, back) for w in stale.writes} or {None}:
            found.add(("overwritten", stale.tensor.name, used, writer))
    for carry in edges:
        if carry.dead:
            ends = (_made(node_with(nodes, n), back) for n in (carry.consumer, carry.producer))
            found.add(("freed", *ends))
    return frozenset(found)


def met(node: Node | None, back: Back) -> frozenset[tuple[object, ...]]:
    """The node at which a failing call stopped, by what it is and where it was made."""
    return frozenset() if node is None else frozenset({("met", node.op, _made(node, back))})


def first_unfinite(evidence: Evidence, back: Back) -> tuple[str, Line | None] | None:
    """The operation from which the first value came that was not finite, and its line; None where it is not known."""
    trouble = trouble_of(evidence.signs, evidence.sources, evidence.raised, evidence.packages)
    born = trouble.born if trouble is not None else None
    return (born.operation, _innermost(born.stack, back)) if born is not None else None


def cuts_of(cuts: list[Cut], back: Back) -> frozenset[tuple[object, ...]]:
    """Where the graph of a loss was seen to end: reason and place. Both runs must have been looked at for it."""
    places = ((c.reason, innermost_user(c.stack)) for c in cuts)
    return frozenset(("cut", reason, back((at.file, at.line))) for reason, at in places if at is not None)


def failing_place(failing_call: Event | None, raised: Raised | None) -> Frame | None:
    """The user's innermost line in the call that failed; None where none is known."""
    event = failing_call
    stack = event.stack if event is not None else raised.stack if raised is not None else []
    return next((f for f in reversed(stack) if f.user), None)


def _call(failing_call: Event | None, raised: Raised | None) -> Line | None:
    frame = failing_place(failing_call, raised)
    return (frame.file, frame.line) if frame is not None else None


def _edges(evidence: Evidence) -> list[OlderEdge]:
    return [*evidence.older_edges, *evidence.earlier_edges]


def _made(node: Node | None, back: Back) -> Line | None:
    """The user's innermost line that made a node."""
    return _innermost(node.stack, back) if node is not None else None


def _innermost(stack: list[Frame], back: Back) -> Line | None:
    frame = innermost_user(stack)
    return back((frame.file, frame.line)) if frame is not None else None
