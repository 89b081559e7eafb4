"""Earlier calls that kept their graph, ``retain_graph=True``, and what they kept it for."""

from __future__ import annotations

from graphdoc.evidence import Event, Node
from graphdoc.program.calls_in_order import Journal


def keeping_calls(journal: Journal, node: Node, behind: set[str], failing: Event | None) -> list[Event]:
    """The calls before the failing one, with the flag, that can have walked a node. ``behind`` are the parameters that
    lie behind it."""
    out = []
    for e in journal.events:
        if e.kind not in ("backward", "grad") or not e.retain_graph or e.failed:
            continue
        if failing is not None and e.index >= failing.index:
            continue
        # The root is newer than what it walks over, and the call is newer than both.
        if e.sequence <= node.sequence or 0 <= e.root < node.sequence:
            continue
        reached = set(journal.reaches(e))
        if reached and behind and not behind <= reached:
            continue
        out.append(e)
    return out


def kept_for_its_round(journal: Journal, calls: list[Event], behind: set[str]) -> bool:
    """Whether one of the calls had a reason of its own to keep it: another one went that way again before any step."""
    for kept in calls:
        later = [e for e in journal.events if e.index > kept.index]
        step = next((i for i, e in enumerate(later) if e.kind == "step"), len(later))
        if any(e.kind == "backward" and behind & set(journal.reaches(e)) for e in later[:step]):
            return True
    return False
