"""The calls of a run in order, with the forward passes between them: the last ones before the failure, and what led up
to them in numbers."""

from __future__ import annotations

from collections import Counter

from graphdoc.evidence import Event, Evidence, Node, OlderEdge, Stale
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.owners import Owners
from graphdoc.program.spans import innermost_user
from graphdoc.shapes import Moment

MOST = 24
"""Calls that are told one by one."""


def moments(evidence: Evidence) -> tuple[tuple[Moment, ...], tuple[tuple[str, int], ...]]:
    """The moments, oldest first, and how often each kind of call was made before them."""
    certain = [] if evidence.raised is not None else [s.event for s in evidence.signs]
    last = _last(evidence.failing_event, certain, evidence.events)
    events = [e for e in evidence.events if e.index <= last]
    journal = Journal(evidence.events, Owners(evidence.optimizers), evidence.sources)
    told = events[-MOST:]
    found: list[Moment] = []
    before = events[: len(events) - len(told)]
    previous = before[-1] if before else None
    for event in told:
        made = event.sequence - (previous.sequence if previous else 0)
        skipped = event.index - (previous.index + 1 if previous else 0)
        if skipped > 0:
            found.append(Moment("gap", skipped=skipped))
        elif made > 0:
            found.append(Moment("forward", made=made))
        if event.index == last:
            # When a write was made is known only where what it spoils was made after the call before.
            made_before = previous.sequence if previous is not None else -1
            found += _writes([(s, evidence.node(s.node)) for s in evidence.stale], made_before)
        frame = innermost_user(event.stack)
        number = journal.number(event)
        found.append(
            Moment(
                event.kind,
                frame.file if frame else "",
                frame.line if frame else 0,
                event.occurrence,
                number if number is not None else -1,
                event.optimizer,
                text=_text(evidence.older_edges, evidence.stale, event),
                failed=event.failed or event.index == evidence.failing_event,
            )
        )
        previous = event
    return tuple(found), tuple(Counter(e.kind for e in before).most_common())


def _last(failing: int, told: list[int], events: list[Event]) -> int:
    """The index of the call at which it failed, or at which the signs that are ``told`` of were certain."""
    if failing >= 0:
        return failing
    return max(told) if told else max((e.index for e in events), default=-1)


def _text(carries: list[OlderEdge], stale_tensors: list[Stale], event: Event) -> str:
    """What a step wrote that was still needed, and what a call released."""
    stale = [s.tensor.name or "a saved tensor" for s in stale_tensors for w in s.writes if w.event == event.index]
    if stale:
        more = len(set(stale)) - 1
        return f"overwrites `{stale[0]}`" + (f" and {more} more" if more else "")
    if any(c.freed_by == event.index and c.dead for c in carries):
        return "releases what is needed again"
    return ""


def _writes(stale_tensors: list[tuple[Stale, Node | None]], since: int) -> list[Moment]:
    """The writes of the program's own to what a node has saved that was made since this number."""
    found: dict[tuple[str, int], Moment] = {}
    for stale, node in stale_tensors:
        if node is None or node.sequence < since:
            continue
        for write in stale.writes:
            frame = innermost_user(write.stack)
            if frame is not None and write.event < 0 and write.certain:
                text = f"`{write.op}` overwrites `{stale.tensor.name or 'a saved tensor'}`"
                found[frame.file, frame.line] = Moment("write", frame.file, frame.line, text=text)
    return list(found.values())
