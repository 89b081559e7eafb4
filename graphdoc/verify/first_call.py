"""Whether the first backward call of a run, which had worked, still gives the same gradients."""

from __future__ import annotations

from graphdoc.verify.gradient_sizes import apart, difference
from graphdoc.verify.measures import names_of, told_place
from graphdoc.verify.traces import Call, Line, Trace


def changed_first_call(
    base: Trace, patched: Trace, failing: int, tolerance: float, once: frozenset[str] = frozenset()
) -> list[str]:
    """A doubt if the very first backward, which worked and can have used nothing old, gives other gradients now.

    Where gradient vanishes from a parameter altogether, ``stopped_flows`` speaks; where the patch has taken a backward
    call away (merged it with another, be it from the same place), the first one is meant to be another. What was
    computed ``once`` for all calls (names of the parameters behind it) can send gradient through the first one alone:
    that this ends is what a constant means, as long as the call gives them gradient in another way.
    """
    if {c.place for c in base.backwards} - {c.place for c in patched.backwards}:
        return []
    first = next(iter(base.backwards), None)
    now = _same_loss(base, patched, first, failing, tolerance) if first is not None else None
    if first is None or now is None or first.index >= failing >= 0 or first.place != now.place:
        return []
    least = max(first.gained.values(), default=0.0) / 100
    changed = [
        k
        for k, gain in first.gained.items()
        if apart(gain, now.gained.get(k, gain), least) > tolerance and not (base.name(k) in once and now.gained.get(k))
    ]
    if not changed or _merged(base, patched, first.place, changed):
        return []
    where, names = told_place(first.place), names_of(base, changed)
    return [f"the first backward, at {where}, which had worked, gives other gradients to {names}"]


def _merged(base: Trace, patched: Trace, place: Line, keys: list[str]) -> bool:
    """Whether several calls from this place added up their gradients for one step, and fewer do now: one for all, or
    one for those of each part of a batch."""
    owners = {o for key in keys for o in base.holders(key)}

    def gathered(trace: Trace) -> int:
        end = next((s.index for s in trace.steps if s.optimizer in owners), None)
        return sum(1 for c in trace.calls if c.place == place and (end is None or c.index < end))

    mine, its = gathered(base), gathered(patched)
    return mine > its > 0 and mine % its == 0


def _same_loss(base: Trace, patched: Trace, first: Call, failing: int, tolerance: float) -> Call | None:
    """The patched run's first call, or where that has another loss and a later one from the same line this very one,
    the latter: a helper that differentiates every loss may have been given them in another order."""
    worked = sum(1 for c in base.backwards if c.place == first.place and c.index < failing)
    calls = list(patched.backwards)[: worked + 1]
    same = [c for c in calls if c.place == first.place and first.value is not None and c.value is not None]
    values = [c for c in same if difference({"": first.value or 0.0}, {"": c.value or 0.0}) <= tolerance]
    return next(iter(values or calls), None)
