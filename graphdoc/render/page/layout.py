"""Where the boxes of a graph stand and how its arrows run: Graphviz's ``dot``, by way of pygraphviz."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

LIMIT = 20.0
"""Seconds that a layout may take; sixty boxes take a few hundredths."""
MISSING = "The graph is listed, not drawn: drawing needs `pip install 'torch-graphdoc[page]'`."
_DOT = (
    "import sys, pygraphviz as p; sys.stdout.buffer.write(p.AGraph(sys.stdin.read()).draw(format='plain', prog='dot'))"
)
_INCH = 72.0
_WIDE = 1400.0
"""Pixels from which on a drawing from above to below is drawn from left to right, if that is narrower."""


@dataclass(frozen=True)
class Layout:
    """In pixels, from the upper left corner. ``centres`` by box, ``paths`` by arrow (spline points, three for each
    piece after the first point); an arrow that was not laid out is missing."""

    width: float
    height: float
    centres: dict[int, Point]
    paths: dict[tuple[int, int], list[Point]]


def lay_out(sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int, bool]]) -> Layout | None:
    """The layout of boxes of these sizes (width, height in pixels), or None where there is nothing to lay it out with.

    It runs in a process of its own: a fault in a library of C takes the drawing, not the report. Only numbers go there.

    Args:
        arrows: (tail, head, whether the tail has to stand above the head).
    """
    if not sizes or importlib.util.find_spec("pygraphviz") is None:
        return None
    lines = ['node [shape=box, fixedsize=true, label=""];']
    lines += [f'{i} [width="{w / _INCH:.3f}", height="{h / _INCH:.3f}"];' for i, (w, h) in enumerate(sizes)]
    lines += [f"{a} -> {b}{'' if binding else ' [constraint=false]'};" for a, b, binding in dict.fromkeys(arrows)]
    found = _drawn("TB", lines)
    if found is None or found.width <= _WIDE:
        return found
    aside = _drawn("LR", lines)
    return aside if aside is not None and aside.width < found.width else found


def _drawn(direction: str, lines: Sequence[str]) -> Layout | None:
    head = f'digraph {{ graph [rankdir={direction}, nodesep="0.25", ranksep="0.42"];'
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _DOT],
            input="\n".join([head, *lines, "}"]).encode(),
            capture_output=True,
            timeout=LIMIT,
            check=True,
        )
        return _read(done.stdout.decode())
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def _read(text: str) -> Layout:
    """Graphviz's ``plain`` format: inches, from the lower left corner."""
    width = height = 0.0
    centres: dict[int, Point] = {}
    paths: dict[tuple[int, int], list[Point]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[0] == "graph":
            width, height = float(words[2]) * _INCH, float(words[3]) * _INCH
        elif words[0] == "node":
            centres[int(words[1])] = (float(words[2]) * _INCH, height - float(words[3]) * _INCH)
        elif words[0] == "edge":
            numbers = [float(w) * _INCH for w in words[4 : 4 + 2 * int(words[3])]]
            paths[int(words[1]), int(words[2])] = [
                (x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)
            ]
    return Layout(width, height, centres, paths)
