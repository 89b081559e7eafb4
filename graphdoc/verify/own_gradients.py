"""What a loss gives to the parameters it is to train: the same as before, where the loss is the same number."""

from __future__ import annotations

import math

from graphdoc.evidence import OlderEdge, Stale
from graphdoc.program.reuse import Reuse
from graphdoc.verify.gradient_sizes import apart, difference
from graphdoc.verify.measures import counterpart, names_of, same_call, told_place
from graphdoc.verify.traces import Call, Trace
from graphdoc.verify.verdict_words import percent

SAME = 1e-6
"""How far two losses of the same numbers may lie apart. One small step moves a loss by little more than this, and may
move gradients by a hundred times as much."""


def behind_old_parts(stale: list[Stale], edges: list[OlderEdge], reuse: Reuse | None) -> frozenset[str]:
    """Names of the parameters behind what is stale, freed or older in the failing graph; empty where it is not known.

    What they get from the failing call passes a part that a fix is to mend or to cut off. All others get theirs by
    nodes that are as the forward pass left them.
    """
    found = {n for s in stale for n in s.behind} | (set(reuse.behind) if reuse is not None else set())
    if not stale:
        found |= {n for e in edges for n in e.behind}
    return frozenset(found)


def cut_within(base: Trace, patched: Trace, failing: int, old: frozenset[str], tolerance: float) -> list[str]:
    """A doubt if the call that had failed has the very loss of the unpatched program, made to go on, and gives other
    gradients to what its own optimizers step: then the patch has cut between the loss and these.

    ``old`` are names of the parameters behind what is old in its graph. Where an earlier call has walked some of that
    graph for a step of the same optimizers, their gradient may end, or be another one. Where none has, this loss is the
    first to train by it: that another optimizer's step has made its weights others takes nothing from what it defines.
    """
    at = base.call_of(failing)
    if at is None or at.value is None or not at.gained:
        return []
    now = same_call(base, patched, at)
    if now is None or not _same_value(at, now):
        return []
    own = base.trained_by(at)
    mine = _stepped_by(base, own, at)
    if _walked_for(base, own, at):
        mine = {k for k in mine if old and base.name(k) not in old}
    return _told(base, at, now, mine, tolerance)


def cut_elsewhere(
    base: Trace, patched: Trace, failing: int, tolerance: float, other: frozenset[str] = frozenset()
) -> list[str]:
    """A doubt if some call other than the failing one has the very loss that it had and gives other gradients to what
    its own optimizers step, although nothing of its graph had been walked for a step of theirs: then the patch, made
    for another use of a value, has cut a term out of this loss.

    Two losses of almost one value are compared only as long as no step has made the weights others: a small step moves
    a loss by little. Behind that the value has to be the very same, of a forward pass that ran before the step.
    A graph that an earlier call of the same optimizers has walked may be cut between the two: what carries values over
    from there is to be a constant. ``other`` are names of the parameters behind a value that was computed once, or that
    had no gradient: theirs is meant to be another. Where a gradient, or a call, is gone altogether, other measures
    speak.
    """
    if {c.place for c in base.backwards} - {c.place for c in patched.backwards}:
        return []
    end = _alike_until(base, patched)
    for at in base.backwards:
        own = base.trained_by(at)
        if at.index == failing or _walked_for(base, own, at):
            continue
        same = [c for c in patched.backwards if c.place == at.place and _same_value(at, c)]
        if at.index > end:
            same = [c for c in same if c.value == at.value != 0]
        keys = {k for k in _stepped_by(base, own, at) if base.name(k) not in other}
        told = [_told(base, at, now, {k for k in keys if k in now.gained}, tolerance) for now in same]
        if told and all(told):
            return told[0]
    return []


def cut_from_leaves(base: Trace, patched: Trace, tolerance: float) -> list[str]:
    """A doubt if, in a program without optimizers, some call that is the first to walk its graph has the very loss that
    it had and gives its leaves other gradients.

    Which of the leaves it is to train is not known then: a program that changes what has a gradient by itself changes
    all of them.
    """
    if base.optimizers or patched.optimizers:
        return []
    for at in base.calls:
        same = [c for c in patched.calls if c.place == at.place and c.kind == at.kind and _same_value(at, c)]
        if not same or all(difference(_leaves(at), _leaves(c)) > tolerance for c in same):
            if not same or at.shares or at.inner:
                return []  # from here on the leaves are others
            what = "its leaves" if at.kind == "backward" else "what it is asked for"
            return [f"the loss at {told_place(at.place)} has the same value and gives other gradients to {what}"]
    return []


def _alike_until(base: Trace, patched: Trace) -> float:
    """The place in the order of the original's events up to which every optimizer has made the steps that it made."""
    for step in base.steps:
        other = counterpart(base, patched, step)
        if other is None or difference(step.each, other.each) > SAME:
            return step.index
    return math.inf


def _leaves(call: Call) -> dict[str, float]:
    if call.kind == "backward":
        return {"": call.loose_sum}
    return {str(i): v for i, v in enumerate(call.sums) if v is not None}


def _stepped_by(trace: Trace, optimizers: set[int], call: Call) -> set[str]:
    """The parameters that a call gives gradient to and one of these optimizers steps."""
    return {k for k in call.gained if trace.holders(k) & optimizers}


def _walked_for(trace: Trace, optimizers: set[int], call: Call) -> bool:
    """Whether an earlier call, for which one of these optimizers stepped, had walked some of the graph of this one. By
    what ``autograd.grad`` gives back no optimizer steps."""
    trains = trace.trains()
    asked = {c.place for c in trace.calls if c.kind == "grad"}
    return any(optimizers & trains.get(place, optimizers) for place in call.shares - asked)


def _same_value(at: Call, now: Call) -> bool:
    if not now.measured or at.value is None or now.value is None:
        return False
    return apart(at.value, now.value) <= SAME


def _told(base: Trace, at: Call, now: Call, keys: set[str], tolerance: float) -> list[str]:
    """The doubt that one call gives other gradients to these parameters than the other does; a nan of the original says
    nothing of what a right one is."""
    mine = {k: g for k, g in at.gained.items() if k in keys and math.isfinite(g)}
    others = {k: now.gained.get(k, 0.0) for k in mine}
    gap = difference(mine, others)
    if gap <= tolerance:
        return []
    changed = [k for k in mine if difference({k: mine[k]}, {k: others[k]}) > tolerance]
    where, names = told_place(at.place), names_of(base, changed, mine)
    told = f"the loss at {where} has the same value and gives other gradients to {names}, which it is to train"
    return [f"{told} (by {percent(gap)})"]
