"""One line of source as it is shown: tabs expanded, controls spelled out, clipped around what matters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from graphdoc.render.text import cells, shown

TAB = 4
DOTS = "..."
_LEFT_OF_FOCUS = 12  # cells of context kept before the first marked place of a line that had to be moved
_LONGEST = 20_000  # characters of a generated line that are looked at


class SourceLine:
    """A displayed line and the way from its characters to its cells.

    ``focus`` are the marked ranges (characters, from 0, end exclusive), the most important first; they stay visible
    when the line is wider than ``width`` cells.
    """

    def __init__(self, line: str, width: int, focus: Sequence[tuple[int, int]] = ()) -> None:
        self._parts = _parts(line[:_LONGEST])
        self._ends = _ends(self._parts)  # cells before character i, for i in 0..n
        self._first, self._last = 0, len(self._parts)
        if self._ends[-1] > width:
            self._clip(width, [(self._held(a), self._held(b)) for a, b in focus])
        lead = DOTS if self._first else ""
        tail = DOTS if self._last < len(self._parts) else ""
        self.text = (lead + "".join(self._visible()) + tail).rstrip()
        self._shift = len(lead) - self._ends[self._first]
        self.width = self._shift + self._ends[self._last] + len(tail)
        self.indent = next((i for i, c in enumerate(line) if not c.isspace()), len(line))

    def cell(self, character: int) -> int:
        """The cell where this character begins; the edge for one that was clipped away."""
        held = self._held(character)
        if held < self._first:
            return 0
        return self.width if held > self._last else self._ends[held] + self._shift

    def _held(self, character: int) -> int:
        return max(0, min(character, len(self._parts)))

    def _clip(self, width: int, focus: list[tuple[int, int]]) -> None:
        left, right = (min(a for a, _ in focus), max(b for _, b in focus)) if focus else (0, 0)
        room = width - 2 * len(DOTS)
        if focus and self._ends[right] - self._ends[left] > room:  # not all of it fits: the first place decides
            left, right = focus[0]
        if self._ends[right] > width - len(DOTS):
            wide = min(self._ends[right] - self._ends[left], room)
            start = max(0, self._ends[left] - min(_LEFT_OF_FOCUS, room - wide))
            start = min(start, self._ends[-1] - width + len(DOTS))  # never scroll past the end
            self._first = self._character(start)
            if self._ends[self._first] < start:  # the middle of a wide character
                self._first += 1
        start = self._ends[self._first]
        used = len(DOTS) if self._first else 0
        # What stands alone at the cut can be wider than it was behind a joiner.
        if max(self._ends[-1] - start, cells("".join(self._visible()))) + used > width:
            self._last = max(self._first, self._character(start + width - used - len(DOTS)))
            # cut apart, the members of a joined emoji are wider than together
            while self._last > self._first and cells("".join(self._visible())) > width - used - len(DOTS):
                self._last -= 1

    def _visible(self) -> list[str]:
        return self._parts[self._first : self._last]

    def _character(self, cell: int) -> int:
        """The last character that begins at this cell or before it."""
        return max(0, bisect_right(self._ends, cell) - 1)


def _parts(line: str) -> list[str]:
    """What is shown for each character."""
    if line.isascii() and line.isprintable() and "##" not in line:
        return list(line)
    parts: list[str] = []
    at = 0
    for i, char in enumerate(line):
        part = " " * (TAB - at % TAB) if char == "\t" else shown(line, i)
        at += cells(part)
        parts.append(part)
    return parts


def _ends(parts: list[str]) -> list[int]:
    text = "".join(parts)
    if text.isascii() or len(parts) > 2000:
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + cells(part))
        return ends
    # A joined emoji is narrower than its members: only the width of the whole beginning is right.
    ends, before = [0], ""
    for part in parts:
        before += part
        ends.append(max(ends[-1], cells(before)))
    return ends
