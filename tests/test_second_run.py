"""The versions that a report tells are those of the message that the user has seen."""

from __future__ import annotations

import pytest

from graphdoc.evidence import SO_FAR, THINNED, Evidence, Optimizer, Parameter, Sign, Stale, Tensor, Write
from graphdoc.second_run import add_later, take_over


def stale(expected: int, current: int, name: str = "state", writes: tuple[Write, ...] = ()) -> Stale:
    return Stale(0, "_saved_input", Tensor(name=name), expected, current, writes=list(writes))


@pytest.mark.parametrize(("name", "current", "told"), [("state", 2, 3), ("state", 3, 0), ("other", 2, 0)])
def test_versions_are_those_of_the_first_run(name: str, current: int, told: int) -> None:
    """Where both runs have seen the same tensor written as often."""
    first, second = Evidence(), Evidence()
    first.stale = [stale(3, 5)]
    second.stale = [stale(0, current, name, (Write("zero_", version=1), Write("add_", version=-1)))]
    take_over(first, second, "probe:writes")
    (found,) = second.stale
    assert (found.expected, found.current) == (told, told + current)
    assert [w.version for w in found.writes] == [1 + told, -1]


def test_what_the_first_run_has_come_to_is_kept() -> None:
    """A second run is ended once it has seen enough: perhaps before the file that a sign of the first one is about."""
    first, second = Evidence(), Evidence()
    first.sources = {"train.py": "import later", "later.py": "optimizer.step()"}
    second.sources = {"train.py": "import later"}
    first.optimizers = [Optimizer(0, "SGD", steps=9), Optimizer(1, "Adam")]
    second.optimizers = [Optimizer(0, "SGD", steps=4)]
    first.parameters = [Parameter("net.weight"), Parameter("later.weight")]
    second.parameters = [Parameter("net.weight")]
    add_later(first, second, whole=False)
    assert second.sources == first.sources
    assert [(o.id, o.steps) for o in second.optimizers] == [(0, 4), (1, 0)]
    assert [p.name for p in second.parameters] == ["net.weight", "later.weight"]


@pytest.mark.parametrize("whole", [False, True])
def test_what_later_steps_may_contradict_is_told_by_the_run_that_saw_them(whole: bool) -> None:
    """A reward that comes late, and an optimizer that steps late, are unknown to a run that was ended before it; so is
    whether a loss became finite."""
    first, second = Evidence(), Evidence()
    first.signs = [Sign("suspect-zero"), Sign(THINNED)]
    second.signs = [Sign("zero-derivative", facts={SO_FAR: True}), Sign("nonfinite"), Sign("gradients")]
    add_later(first, second, whole)
    assert [s.kind for s in second.signs] == [*["zero-derivative"] * whole, "gradients", "suspect-zero"]
