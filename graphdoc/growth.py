"""When numbers that grew out of all bounds have taken off: asked inside the program and of what it has left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

FAR = 10.0
"""How many times its usual size a number is called far above it."""

MANY = 8
"""Steps from which on a growth is called steady."""
BOUNDLESS = 1e8
"""How many times itself a loss has grown where nothing but its own steps explains it."""


def usual_size(values: Sequence[float]) -> float:
    """The median of the first third of these, at least of three; of as many as there are where they are fewer.

    Raises:
        IndexError: there are none.
    """
    start = sorted(values[: max(3, len(values) // 3)])
    return start[len(start) // 2]


def grew_steadily(values: Sequence[float]) -> bool:
    """Whether a number has grown out of all bounds up to its last value, a little in each of many steps: ``MANY`` or
    more, in a row, by ``BOUNDLESS`` together, of which no single one makes half of it.

    What comes close to a point where its function has no value grows in a few steps, or as a power of their number.
    """
    start = len(values) - 1
    while start > 0 and 0 < values[start - 1] < values[start]:
        start -= 1
    run = values[max(start, 0) :]
    if len(run) <= MANY or run[0] <= 0:
        return False
    rates = [log(b / a) for a, b in pairwise(run)]
    return sum(rates) > log(BOUNDLESS) and max(rates) < sum(rates) / 2


def took_off(history: Sequence[tuple[int, float]]) -> int | None:
    """The first moment of a history (moment, size) from which on every size was far above the usual one; None where the
    last is not, or where there is no usual one: fewer than three came before.
    """
    if len(history) <= 3:
        return None
    usual = usual_size([size for _, size in history])
    begun = None
    for place, (moment, size) in enumerate(history):
        if size <= FAR * usual or place < 3:
            begun = None
        elif begun is None:
            begun = moment
    return begun
