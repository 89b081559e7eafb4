"""Whether a program does the same twice: numbers of two runs can be compared only then."""

from __future__ import annotations

from graphdoc.verify.gradient_sizes import difference
from graphdoc.verify.traces import Call, Trace

UNSTEADY = "the program's numbers differ from one run to the next"


def repeats(one: Trace, other: Trace, failing: int, tolerance: float) -> bool:
    """Whether two runs of the unchanged program made the same calls with the same numbers before the point of failure.

    A run that was stopped sooner is compared as far as it went. True also where neither made any: nothing speaks
    against it. ``tolerance`` is the relative difference of losses and gradients up to which they count as the same.
    """
    pairs = zip(_before(one, failing), _before(other, failing), strict=False)
    return all(a.place == b.place and _apart(a, b) <= tolerance for a, b in pairs)


def _before(trace: Trace, failing: int) -> list[Call]:
    return [c for c in trace.backwards if c.index < failing or failing < 0]


def _apart(a: Call, b: Call) -> float:
    loss = difference({"": a.value}, {"": b.value}) if a.value is not None and b.value is not None else 0.0
    gained = difference(a.gained, b.gained) if a.measured and b.measured else 0.0
    return max(loss, gained)
