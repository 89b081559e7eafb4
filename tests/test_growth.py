"""When a number took off: a growth that stays, not a spike that passes; and how its history is drawn."""

from __future__ import annotations

import pytest

from graphdoc.growth import grew_steadily, took_off
from graphdoc.story.first_bad_value import WIDTH, plot

LEVEL = [1.0, 1.4, 0.7, 1.1, 0.9, 1.2]


@pytest.mark.parametrize(
    ("sizes", "begun"),
    [
        pytest.param([*LEVEL, 3.0, 30.0, 400.0, 1e9], 7, id="grows and stays so"),
        pytest.param([*LEVEL, 900.0, 1.0, 50.0, 70.0], 8, id="a spike before does not count"),
        pytest.param([*LEVEL, 900.0, 1.0], None, id="a spike that passes"),
        pytest.param([0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.0, 1.0], None, id="a warm-up"),
        pytest.param([1e9, 1e9, 1e9, 1e10], None, id="large from the first step on"),
        pytest.param([1.0, 1e9, 1e12], None, id="nothing usual is known"),
    ],
)
def test_the_step_from_which_on_it_was_far_above_its_usual_size(sizes: list[float], begun: int | None) -> None:
    assert took_off(list(enumerate(sizes))) == begun


def test_the_plot_shows_powers_of_ten_and_where_they_began() -> None:
    drawn = plot("norm", [(i, 10.0**i) for i in range(8)], 4)
    assert drawn == "norm, calls 1 to 8: ▁▂▃▄│▅▆▇█ 1 to 1e+07"


def test_a_long_history_is_drawn_on_one_line_with_its_peaks() -> None:
    drawn = plot("norm", [(i, 1e6 if i == 500 else 1.0) for i in range(1000)])
    bars = drawn.split(": ")[1].split()[0]
    assert len(bars) <= WIDTH and bars.count("█") == 1 and set(bars) == {"▁", "█"}


def test_what_never_changes_is_flat() -> None:
    assert "▁▁▁ 2 to 2" in plot("norm", [(i, 2.0) for i in range(3)])


@pytest.mark.parametrize(
    ("values", "steady"),
    [
        pytest.param([3.0**i for i in range(30)], True, id="by one factor from the first step on"),
        pytest.param([5.0, 2.0, *(0.5 * 7.0**i for i in range(14))], True, id="after it fell"),
        pytest.param([3.0**i for i in range(12)], False, id="not out of all bounds"),
        pytest.param([*(1.0 + 0.1 * i for i in range(20)), 1e9], False, id="in one step"),
        pytest.param([*(3.0**i for i in range(30)), 1.0], False, id="it came down"),
        pytest.param([1.0, 1e5, 1e10], False, id="in a few steps"),
        pytest.param([], False, id="nothing is known"),
    ],
)
def test_what_grows_without_bounds_in_many_steps(values: list[float], steady: bool) -> None:
    assert grew_steadily(values) is steady
