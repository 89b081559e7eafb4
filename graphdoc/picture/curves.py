"""The numbers of a run that grew until they were no longer finite, step by step."""

from __future__ import annotations

import math
from collections.abc import Iterable

from graphdoc.program.bad_values import Trouble
from graphdoc.shapes import Curve


def curves(trouble: Trouble | None) -> tuple[Curve, ...]:
    """The norm of the gradients and the loss by backward call, as far as a second run has seen them."""
    if trouble is None:
        return ()
    history = trouble.history
    found = (
        _curve("norm of the gradients", ((call, norm) for call, _, norm in history if norm >= 0), trouble.iteration),
        _curve("size of the loss", ((call, abs(loss)) for call, loss, _ in history), trouble.iteration),
    )
    return tuple(curve for curve in found if curve is not None)


def _curve(title: str, points: Iterable[tuple[int, float]], marked: int) -> Curve | None:
    finite = tuple((call, value) for call, value in points if math.isfinite(value))
    return Curve(title, finite, marked) if len(finite) > 1 else None
