"""When numbers that grew out of all bounds have taken off: asked inside the program and of what it has left."""

from __future__ import annotations

from collections.abc import Sequence

FAR = 10.0
"""How many times its usual size a number is called far above it."""


def usual_size(values: Sequence[float]) -> float:
    """The median of the first third of these, at least of three; of as many as there are where they are fewer.

    Raises:
        IndexError: there are none.
    """
    start = sorted(values[: max(3, len(values) // 3)])
    return start[len(start) // 2]


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
