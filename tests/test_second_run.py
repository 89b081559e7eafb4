"""The versions that a report tells are those of the message that the user has seen."""

from __future__ import annotations

import pytest

from graphdoc.evidence import Evidence, Stale, Tensor, Write
from graphdoc.second_run import take_over


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
