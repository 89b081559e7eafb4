"""Untrusted text made harmless and comparable: terminal escapes out, white space evened, places kept."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

# Every repetition is bounded: a log may hold an escape that never ends.
_ESCAPE = (
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor moves
    r"|\x1b\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"  # window titles, hyperlinks
    r"|\x1b[PX^_][^\x1b]{0,4096}(?:\x1b\\)?"  # device strings
    r"|\x1b(?:[#%(-/][0-~]|[0-~])?"  # the short ones, and a lone escape
)
# What may not reach a terminal: C0 but tab and newline, DEL, C1, and the marks that reorder text on screen.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"

ESCAPES = re.compile(_ESCAPE)
_UNSAFE = re.compile(f"{_ESCAPE}|{_CONTROL}")
_ODD = re.compile(r"[\ud800-\udfff]")

# Decoration in front of a continued line of a quoted or labelled message; the log reader knows many more.
_QUOTE = r"(?:> ?){1,8}|\[(?:rank|default)\d{1,6}\]: ?|E {3}|\d{4}-\d\d-\d\dT[\d:.]{8,20}Z "
_GAP = (
    rf" *+(?:{_ESCAPE}|[^\S ]|{_CONTROL})(?:(?<=\n) {{0,8}}(?:{_QUOTE})|{_ESCAPE}|\s|{_CONTROL})*"
    r"| {2,}"
)
_GAPS = re.compile(_GAP)


def clean(text: str) -> str:
    """The text without anything that a terminal would obey; newlines and tabs stay, carriage returns become newlines.

    Lone surrogates become question marks, so that the result can always be written as UTF-8.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _ODD.sub("?", _UNSAFE.sub("", text))


@dataclass(frozen=True)
class Flat:
    """A text with each run of white space and escapes made one space (or nothing), and the way back to the original.

    ``breaks`` are the positions in ``text`` where the original had a line end.
    """

    text: str
    breaks: tuple[int, ...]
    _ends: tuple[int, ...]
    _shifts: tuple[int, ...]

    def original(self, position: int) -> int:
        """The position in the original text that ``position`` in the flat text came from."""
        found = bisect_right(self._ends, position) - 1
        return position + (self._shifts[found] if found >= 0 else 0)

    def line_end(self, start: int, end: int) -> int:
        """The first line end in ``[start, end)``, or ``end``."""
        found = bisect_left(self.breaks, start)
        return self.breaks[found] if found < len(self.breaks) and self.breaks[found] < end else end


def flatten(text: str) -> Flat:
    """Even out white space, drop escapes and the marks of quoted lines, and remember where everything was."""
    pieces: list[str] = []
    breaks: list[int] = []
    ends: list[int] = []
    shifts: list[int] = []
    length = last = 0
    for gap in _GAPS.finditer(text):
        start, end = gap.span()
        if start > last:
            pieces.append(text[last:start])
            length += start - last
        inside = gap.group()
        if any(c.isspace() for c in inside):
            if "\n" in inside or "\r" in inside:
                breaks.append(length)
            pieces.append(" ")
            length += 1
        ends.append(length)
        shifts.append(end - length)
        last = end
    pieces.append(text[last:])
    return Flat("".join(pieces), tuple(breaks), tuple(ends), tuple(shifts))


def squeeze(flat: Flat) -> Flat:
    """The same without any space: for text that a terminal has wrapped in the middle of words."""
    pieces: list[str] = []
    ends: list[int] = []
    shifts: list[int] = []
    length = start = 0
    for word in flat.text.split(" "):
        pieces.append(word)
        ends.append(length)
        shifts.append(flat.original(start) - length)
        length += len(word)
        start += len(word) + 1
    return Flat("".join(pieces), (), tuple(ends), tuple(shifts))
