"""The history of a number on one line: a bar for each step, as high as the number has digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
WIDTH = 36
"""Bars at most; of a longer history each stands for several steps."""
_TINY = 1e-30


def plot(title: str, history: Sequence[tuple[int, float]], marked: int | None = None) -> str:
    """``gradient norm, calls 1 to 36: ▁▁▁▁▂│▃▅▆▇█ 0.3 to 2e+17``, with ``│`` in front of the step at
    ``marked``. Heights are logarithms; a bar that stands for several steps shows the largest of them.

    Args:
        history: (number of the call from 0, size), finite and in order; at least one.
    """
    each = math.ceil(len(history) / WIDTH)
    groups = [history[i : i + each] for i in range(0, len(history), each)]
    logs = [max(math.log10(max(size, _TINY)) for _, size in group) for group in groups]
    low, high = min(logs), max(logs)
    bars = ""
    for group, value in zip(groups, logs, strict=True):
        if marked is not None and group[0][0] <= marked <= group[-1][0] and bars:
            bars += "│"
        bars += _BARS[round((value - low) / (high - low) * 7) if high > low else 0]
    sizes = [size for _, size in history]
    calls = f"calls {history[0][0] + 1} to {history[-1][0] + 1}"
    return f"{title}, {calls}: {bars} {min(sizes):.2g} to {max(sizes):.2g}"
