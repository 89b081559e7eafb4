"""Lines of source as rows of the terminal: tabs and controls shown, underlines and labels below, colour or none."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoc.model import Span
from graphdoc.render import story
from graphdoc.render.text import cells, shown, wrap

# One line of source as it is shown: tabs expanded, controls spelled out, clipped around what matters.

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
        self._lead = DOTS if self._first else ""
        tail = DOTS if self._last < len(self._parts) else ""
        self.text = (self._lead + "".join(self._visible()) + tail).rstrip()
        self._shift = len(self._lead) - self._ends[self._first]
        self.width = self._shift + self._ends[self._last] + len(tail)
        self.indent = next((i for i, c in enumerate(line) if not c.isspace()), len(line))

    def cell(self, character: int) -> int:
        """The cell where this character begins; the edge for one that was clipped away."""
        held = self._held(character)
        if held < self._first:
            return 0
        return self.width if held > self._last else self._ends[held] + self._shift

    def index(self, character: int) -> int:
        """Where in ``text`` this character begins; the edge of what is shown for one that was clipped away."""
        held = min(max(self._held(character), self._first), self._last)
        return min(len(self._lead) + sum(map(len, self._parts[self._first : held])), len(self.text))

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


# Where a span lies in the lines that are shown, and the underlines and labels below one line.

Row = list[tuple[str, str]]
"""Pieces of one printed line: text and the name of its style (see ``graphdoc.render.underlines``)."""

NARROWEST = 16  # cells that a label gets at least, even where it runs over the edge
_ROOM = 32  # a label with less room than this right of its place moves to the left


@dataclass(frozen=True)
class Mark:
    """A span with characters counted from 0 and held inside its lines; ``column`` is a multi-line span's bar."""

    line: int
    start: int
    end_line: int
    end: int
    label: str
    primary: bool
    column: int = 0

    @property
    def style(self) -> str:
        return "primary" if self.primary else "secondary"

    @property
    def sign(self) -> str:
        return "^" if self.primary else "-"


class Canvas:
    """Cells of one row that are drawn upon; a wide character takes two of them."""

    def __init__(self) -> None:
        self.drawn: dict[int, tuple[str, str]] = {}

    def put(self, at: int, text: str, style: str) -> None:
        """Draws ``text`` from cell ``at`` over what is there."""
        if text.isascii():
            self.drawn.update({at + i: (char, style) for i, char in enumerate(text)})
            return
        place = at
        for i, char in enumerate(text):
            before, after = cells(text[:i]), cells(text[: i + 1])
            if after > before or i == 0:
                place = at + before
                self.drawn[place] = (char, style)
            else:  # combining: belongs to the character before it
                self.drawn[place] = (self.drawn[place][0] + char, style)

    def row(self, width: int = 0) -> Row:
        """The pieces from cell 0, filled up to ``width``."""
        row: Row = []
        at = 0
        for cell, (char, style) in sorted(self.drawn.items()):
            if cell > at:
                row.append((" " * (cell - at), ""))
            if row and row[-1][1] == style:
                row[-1] = (row[-1][0] + char, style)
            else:
                row.append((char, style))
            at = cell + max(1, cells(char))
        if width > at:
            row.append((" " * (width - at), ""))
        return row


def locate(span: Span, lines: Sequence[str]) -> Mark:
    """The span within the text that is there. An empty span at column 1 stands for its whole line."""
    line, end_line = max(1, span.line), max(span.line, span.end_line, 1)
    start, end = max(0, span.column - 1), max(0, span.end_column - 1)
    if line <= len(lines):
        text = lines[line - 1]
        if end_line > len(lines):
            end_line, end = len(lines), len(lines[-1])
        if end_line == line:
            if start == 0 and end <= start:
                end = len(text.rstrip())
            start = min(start, max(0, len(text) - 1))
            end = max(start + 1, min(end, len(text)))
            while start < end - 1 and text[start].isspace():
                start += 1
        else:
            start, end = min(start, len(text)), max(1, min(end, len(lines[end_line - 1])))
    return Mark(line, start, end_line, end, story.label(span), span.role == "cause")


def columns(bars: Sequence[Mark]) -> list[Mark]:
    """Multi-line marks with a column each, from the left, so that no two overlapping ones share it."""
    placed: list[Mark] = []
    for bar in sorted(bars, key=lambda b: (b.line, -b.end_line)):
        taken = {p.column for p in placed if p.line <= bar.end_line and bar.line <= p.end_line}
        placed.append(replace(bar, column=next(c for c in range(len(taken) + 1) if c not in taken)))
    return placed


def underlines(marks: Sequence[Mark], code: SourceLine, width: int) -> list[Canvas]:
    """The rows below a code line: all underlines on the first, one label beside them, the others hanging."""
    if not marks:
        return []
    spread = [(m, a := code.cell(m.start), max(code.cell(m.end), a + 1)) for m in marks]
    first = Canvas()
    # the shorter lies upon the longer, a primary upon a secondary one of the same length
    for mark, start, end in sorted(spread, key=lambda x: (x[1] - x[2], x[0].primary)):
        first.put(start, mark.sign * (end - start), mark.style)
    beside = _beside(spread, width)
    if beside is not None:
        mark, _, end = beside
        first.put(end + 1, mark.label, mark.style)
    hanging = [(start, m) for m, start, _ in spread if m.label and (beside is None or m is not beside[0])]
    return [first, *_hanging(sorted(hanging, key=lambda x: -x[0]), width, single=len(marks) == 1)]


def _beside(spread: Sequence[tuple[Mark, int, int]], width: int) -> tuple[Mark, int, int] | None:
    """The mark whose label can stand on the row of the underlines: the last one, if it ends alone."""
    mark, start, end = max(spread, key=lambda x: (x[1], x[2]))
    alone = all(m is mark or (a < start and b <= end) for m, a, b in spread)
    return (mark, start, end) if alone and mark.label and end + 1 + cells(mark.label) <= width else None


def _hanging(labels: Sequence[tuple[int, Mark]], width: int, *, single: bool) -> list[Canvas]:
    rows: list[Canvas] = []
    if labels and not single:
        rows.append(_connectors(labels))
    for i, (start, mark) in enumerate(labels):
        left_of_it = [x for x in labels[i + 1 :] if x[0] < start]
        floor = max((x[0] + 2 for x in left_of_it), default=0)
        left = label_left(mark.label, start, floor, width)
        for text in wrap(mark.label, max(NARROWEST, width - left)):
            row = _connectors(left_of_it)
            row.put(left, text, mark.style)
            rows.append(row)
    return rows


def _connectors(labels: Sequence[tuple[int, Mark]]) -> Canvas:
    row = Canvas()
    for start, mark in labels:
        row.put(start, "|", mark.style)
    return row


def label_left(label: str, start: int, floor: int, width: int) -> int:
    """The cell where a label on its own row begins: below its place, or further left where room is short."""
    return max(floor, min(start, width - min(cells(label), _ROOM)))


# Styled rows to a string: plain, or with ANSI colours.

# The 16 colours of every terminal, so that the user's own theme decides what they look like.
STYLES = {
    "": "",
    "code": "",
    "error": "bold bright_red",
    "warning": "bold yellow",
    "strong": "bold",
    "gutter": "bold bright_blue",
    "place": "",
    "primary": "bold bright_red",
    "secondary": "bold bright_blue",
    "note": "bold",
    "help": "bold bright_cyan",
    "verified": "bold green",
    "removed": "red",
    "added": "green",
    "removed-part": "bold red",
    "added-part": "bold green",
}


def plain(row: Row) -> str:
    """The row's text without trailing white space."""
    return "".join(text for text, _ in row).rstrip()


def paint(rows: Sequence[Row], *, color: bool, links: bool = False) -> str:
    """All rows, each ended by a newline; with ``links``, places in files that are there lead to them."""
    if not color:
        return "".join(f"{plain(row)}\n" for row in rows)
    from rich.color import ColorSystem
    from rich.style import Style

    styles = {name: Style.parse(words or "none") for name, words in STYLES.items()}
    lines = []
    for row in rows:
        pieces = [p for p in row if p[0]]
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        if pieces:
            pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
        looks = [styles[s] + Style(link=address(t) if links and s == "place" else None) for t, s in pieces]
        lines.append(
            "".join(s.render(t, color_system=ColorSystem.STANDARD) for s, (t, _) in zip(looks, pieces, strict=True))
            + "\n"
        )
    return "".join(lines)


def address(place: str) -> str | None:
    """The address of ``train.py:13`` or ``train.py:13:5`` with its line, as kitty and rich write it (``#13``); None
    where there is no such file."""
    found = re.fullmatch(r"(.+?):(\d+)(?::\d+)?", place)
    file = Path(os.path.abspath(found[1])) if found else None
    return f"{file.as_uri()}#{found[2]}" if found and file is not None and file.is_file() else None
