"""A number of the run by step, as a small inline SVG plot."""

from __future__ import annotations

import math
from html import escape

from graphdoc.render.text import flat
from graphdoc.shapes import Curve

_WIDE, _HIGH = 560, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 34
_MOST_TICKS = 6
STEEP = 50.0
"""The largest value is this many times the smallest: powers of ten stand at the same distance then."""


def plots(curves: tuple[Curve, ...]) -> str:
    """The section with all curves; empty without any."""
    if not curves:
        return ""
    drawn = "".join(
        f"<figure>{_plot(i, c)}<figcaption>{escape(_said(c))}</figcaption></figure>" for i, c in enumerate(curves)
    )
    head = "<section id=curves aria-labelledby=curves-h><h2 id=curves-h>How it grew</h2>"
    return f"{head}<div class=plots>{drawn}</div></section>"


def _said(curve: Curve) -> str:
    first, last = curve.points[0], curve.points[-1]
    text = f"{flat(curve.title)}: {first[1]:.4g} at backward #{first[0] + 1}, {last[1]:.4g} at #{last[0] + 1}"
    return f"{text}; no longer finite at #{curve.marked}" if curve.marked > last[0] + 1 else text


def _plot(number: int, curve: Curve) -> str:
    calls = [call + 1 for call, _ in curve.points]
    values = [value for _, value in curve.points]
    positive = [v for v in values if v > 0]
    steep = len(positive) == len(values) and max(values) > STEEP * min(values)
    scaled = [math.log10(v) for v in values] if steep else values
    low, high = (math.floor(min(scaled)), math.ceil(max(scaled))) if steep else (min(0.0, min(scaled)), max(scaled))
    high = high if high > low else low + 1
    last = max(calls[-1], curve.marked)

    def x(call: float) -> float:
        return _LEFT + (call - calls[0]) / max(last - calls[0], 1) * (_WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HIGH - _BOTTOM - (value - low) / (high - low) * (_HIGH - _TOP - _BOTTOM)

    parts = [
        f'<svg class=plot viewBox="0 0 {_WIDE} {_HIGH}" role=img aria-labelledby="plot{number}-t plot{number}-d">'
        f"<title id=plot{number}-t>{escape(flat(curve.title))}</title>"
        f"<desc id=plot{number}-d>{escape(_said(curve))}</desc>"
    ]
    for tick in _ticks(low, high, whole=steep):
        text = f"1e{tick:.0f}" if steep else f"{tick:.3g}"
        parts.append(
            f'<path class=grid d="M{_LEFT} {y(tick):.1f}H{_WIDE - _RIGHT}"/>'
            f'<text class=tick x="{_LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor=end>{text}</text>'
        )
    for call in _ticks(calls[0], last, whole=True):
        parts.append(
            f'<text class=tick x="{x(call):.1f}" y="{_HIGH - _BOTTOM + 18}" text-anchor=middle>{call:.0f}</text>'
        )
    if curve.marked > calls[-1]:
        parts.append(f'<path class=wrong d="M{x(curve.marked):.1f} {_TOP}V{_HIGH - _BOTTOM}"/>')
    points = " ".join(f"{x(c):.1f},{y(v):.1f}" for c, v in zip(calls, scaled, strict=True))
    parts.append(f'<polyline class=curve points="{points}"/>')
    if len(calls) <= 40:
        parts += [
            f'<circle class=curve cx="{x(c):.1f}" cy="{y(v):.1f}" r="3"/>' for c, v in zip(calls, scaled, strict=True)
        ]
    parts.append(
        f'<text class=tick x="{(_LEFT + _WIDE - _RIGHT) / 2}" y="{_HIGH - 2}" text-anchor=middle>backward call</text>'
    )
    return "".join([*parts, "</svg>"])


def _ticks(low: float, high: float, whole: bool) -> list[float]:
    """At most six round numbers from ``low`` to ``high``."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-300)))
    step = max(step, 1.0) if whole else step
    for factor in (0.5, 1, 2, 5, 10, 20):
        size = step * factor
        if whole and size != int(size):
            continue
        first, last = math.ceil(low / size), math.floor(high / size)
        if last - first < _MOST_TICKS:
            return [n * size for n in range(first, last + 1)]
    return [low, high]
