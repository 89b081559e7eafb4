"""What to do about messages that have no cause of their own, ``ways_out.txt``; and how such tables are read."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

# Tables of texts beside the patterns: one row a line, with tabs between its columns.


@functools.cache
def rows(name: str, columns: int) -> list[list[str]]:
    """Every row of a table, with empty texts in the place of columns that are left out at its end."""
    text = resources.files("graphdoc.messages").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    found = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [[*row, *[""] * (columns - len(row))] for row in found]


class WayOut(NamedTuple):
    """What to do about a message, in words that begin with a verb; of PyTorch's ``own`` affair, why it is that.

    ``plain``: an ordinary exception, which has nothing to do with a graph. ``calls`` set up what is refused later.
    ``more`` is a sentence about how it is done.
    """

    text: str
    own: bool = False
    plain: bool = False
    calls: tuple[str, ...] = ()
    more: str = ""

    @property
    def told(self) -> str:
        """As a sentence."""
        text = f"This is PyTorch's own affair: {self.text}" if self.own else self.text[:1].upper() + self.text[1:]
        return f"{text}."


_OWN, _PLAIN = "own: ", "plain: "


@functools.cache
def ways_out() -> Mapping[str, WayOut]:
    """Every one of them by the id of its message, in the order of the file."""
    return dict(_parsed(*row) for row in rows("ways_out", 4))


def _parsed(ident: str, words: str, calls: str, more: str) -> tuple[str, WayOut]:
    text = words.removeprefix(_OWN).removeprefix(_PLAIN)
    return ident, WayOut(text, words.startswith(_OWN), words.startswith(_PLAIN), tuple(calls.split()), more)


def way_out(ident: str) -> WayOut | None:
    """That of one message; None where it has causes or is not known."""
    return ways_out().get(ident)
