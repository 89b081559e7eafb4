"""Whether a program does the same twice: numbers of two runs can be compared only then."""

from __future__ import annotations

from graphdoc.verify.gradient_sizes import difference
from graphdoc.verify.traces import Call, Trace

UNSTEADY = "the program's numbers differ from one run to the next"


def repeats(one: Trace, other: Trace, failing: int, tolerance: float) -> bool:
    """Whether two runs of the unchanged program made the same calls with the same numbers before the point of failure.

    True also where neither made any: nothing speaks against it. ``tolerance`` is the relative difference of losses and
    gradients up to which they count as the same.
    """
    mine, its = _before(one, failing), _before(other, failing)
    if [c.place for c in mine] != [c.place for c in its]:
        return False
    return all(_apart(a, b) <= tolerance for a, b in zip(mine, its, strict=True))


def _before(trace: Trace, failing: int) -> list[Call]:
    return [c for c in trace.backwards if c.index < failing or failing < 0]


def _apart(a: Call, b: Call) -> float:
    loss = difference({"": a.value}, {"": b.value}) if a.value is not None and b.value is not None else 0.0
    gained = difference(a.gained, b.gained) if a.measured and b.measured else 0.0
    return max(loss, gained)
