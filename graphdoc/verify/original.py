"""What the evidence of the original run tells a trial: where it failed, and what is to receive gradient."""

from __future__ import annotations

from graphdoc.evidence import Event, Evidence, Raised, Sign
from graphdoc.program.library_calls import REFUSED_VIEW, SECOND_TIME, message_of
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user
from graphdoc.verify.traces import Line, Trace


def failing_index(evidence: Evidence) -> int:
    """The journal index of the backward call that failed; -1 where the failure came from no such call.

    For a write into one of several views, which a reference run lets pass: the index of the event that follows.
    """
    if evidence.went_on:
        return -1
    if evidence.failing_event >= 0:
        return evidence.failing_event
    if refused_views(evidence.raised):
        return max((e.index for e in evidence.events), default=-1) + 1
    return max((e.index for e in evidence.events if e.failed), default=-1)


def point_of_failure(events: list[Event], signs: list[Sign], failing: int) -> int:
    """The journal index at which the run failed, whatever failed; -1 where the journal is empty.

    Of a run that went on, which ``signs`` were seen in: where all of them were certain.
    """
    if signs:
        return max((s.event for s in signs if not s.weak), default=-1)
    return failing if failing >= 0 else max((e.index for e in events), default=-1)


def refused_views(raised: Raised | None) -> bool:
    """Whether the run ended with the refusal to write into one of several views that one call has returned."""
    return message_of(raised, *REFUSED_VIEW) is not None


def own_graph(fresh_reaches: list[str], raised: Raised | None) -> frozenset[str]:
    """Parameters that a second backward reached by nodes newer than the first, whatever is done about the old ones."""
    return frozenset(fresh_reaches) if message_of(raised, *SECOND_TIME) else frozenset()


def behind_what_was_made_once(reuse: Reuse | None) -> frozenset[str]:
    """Parameters behind a value that was computed once, and that each call of the failing place takes in."""
    made_once = reuse is not None and reuse.lifetime is Lifetime.MADE_ONCE
    return frozenset(reuse.behind) if reuse is not None and made_once else frozenset()


def reached_from(events: list[Event], failing: int, reaches: list[str]) -> dict[Line, frozenset[str]]:
    """Names of the parameters behind each backward call, by its place; empty where those of a place are not known.

    What the failing call reaches is known from the graph as it was left.
    """
    found: dict[Line, set[str]] = {}
    for event in events:
        frame = innermost_user(event.stack)
        if event.kind != "backward" or frame is None:
            continue
        names = found.setdefault((frame.file, frame.line), set())
        names |= set(reaches if event.index == failing else event.reaches)
    return {place: frozenset(names) for place, names in found.items()} if all(found.values()) else {}


def expected_names(program: Program) -> frozenset[str]:
    """Parameters that an optimizer owns and that received gradient, or were about to when the run failed.

    Not those of optimizers that are never stepped: networks that follow others are often given one all the same. Nor
    what the call that failed was about to give to others than it works for, and that have not stepped at all: a run
    that ends soon behind it may not come to where their own loss does that. What the steps so far had no gradient for
    is not promised one by a derivative, ``autograd.grad``, that was cut off.
    """
    works_for = program.journal.works_for(program.failing) if program.failing is not None else frozenset[int]()
    stepped = {o.id for o in program.evidence.optimizers if o.steps}
    begun = works_for | stepped
    waiting = {p.name for p in program.parameters if works_for and p.owners and not begun & set(p.owners)}
    owned = {p.name for p in program.parameters if set(p.owners) - program.never_stepped and not p.buffer}
    had = {p.name for p in program.parameters if p.steps_with_grad > 0}
    behind = {name for cut in program.cuts for name in cut.behind}
    if (
        program.failing is not None
        and program.failing.kind == "grad"
        and any(p.steps_with_grad for p in program.parameters)
    ):
        behind &= had
    return frozenset(owned & (had | (set(program.evidence.reaches) - waiting) | behind))


def covered_places(signs: list[Sign]) -> frozenset[Line]:
    """Where a run that went on called backward on what reaches no parameter."""
    at = (innermost_user(s.stack) for s in signs if s.kind == "covered-loss")
    return frozenset((f.file, f.line) for f in at if f is not None)


def stepped_between(trace: Trace, freed: int, failing: int) -> bool:
    """Whether an optimizer stepped after the call that released a graph and before the one that needed it again.

    Then the graph was of older values, and making it live on is no way to the gradient that is wanted.
    """
    if freed < 0:
        freed = max((c.index for c in trace.calls if c.index < failing), default=failing)
    return any(freed < step.index < failing for step in trace.steps)
