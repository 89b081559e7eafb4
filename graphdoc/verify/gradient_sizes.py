"""The size of a gradient as a trace tells it, and how far two of them are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_ROUNDING = 1e-5
"""How far two gradients of one size may point apart by rounding alone, where sums are taken in another order."""


class Size(float):
    """The size of a gradient: the sum of its absolute values; and what tells it from others of that size: ``turned``,
    sums under patterns of signs, and ``norm``, of the elements that were looked at."""

    turned: tuple[float, ...] = ()
    norm: float = 0.0

    @classmethod
    def of(cls, told: float | Sequence[float]) -> Size:
        """From a trace."""
        total, *rest = [told] if isinstance(told, int | float) else told
        size = cls(total)
        if rest:
            size.turned, size.norm = tuple(rest[:-1]), rest[-1]
        return size


def difference(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    """The largest relative difference; a gradient that is missing on one side counts as different altogether.

    Gradients below a hundredth of the largest one are measured against that: in exact arithmetic they may be zero, and
    rounding alone would make them differ.
    """
    scale = max((v for v in (*a.values(), *b.values()) if math.isfinite(v)), default=0.0)
    return max((apart(a.get(k, 0.0), b.get(k, 0.0), scale / 100) for k in a.keys() | b.keys()), default=0.0)


def apart(a: float, b: float, least: float = 0.0) -> float:
    """The relative difference of two sizes; of gradients of one size, how far these are apart in direction."""
    if math.isnan(a) and math.isnan(b):
        return 0.0
    if not math.isfinite(a) or not math.isfinite(b):
        return 0.0 if a == b else 1.0
    whole = max(abs(a), abs(b), least)
    gap = abs(a - b) / whole if whole else 0.0
    if not isinstance(a, Size) or not isinstance(b, Size) or len(a.turned) != len(b.turned):
        return gap
    norm = max(a.norm, b.norm)
    if not a.turned or not norm or not math.isfinite(norm):
        return gap
    turned = math.sqrt(sum((x - y) ** 2 for x, y in zip(a.turned, b.turned, strict=True)) / len(a.turned)) / norm
    turned *= max(abs(a), abs(b)) / whole
    return max(gap, turned if turned > _ROUNDING else 0.0)
