"""The messages that the list of PyTorch's own raises, checks and warnings holds: recognised, with no cause written.

``listed.txt`` is made from an installed torch by tests/messages/inventory.py and never edited by hand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

from graphdoc.messages.flat_text import Flat

# How many characters a value can have in a message.
_LONGEST_VALUE = 300
FEW_WORDS = "?"
"""Stands behind the class of a message that is not known by its words alone."""
_WORD = re.compile(r"\w+")
_FIELD = re.compile(r"⟨([^⟩]*)⟩")
# What can stand right before a message: the class of the exception, a line's end, a quote mark.
_BEFORE = re.compile(r"(?:[:>\])|\"'`] ?|^ ?)$")
_MOST_LOOKS = 50


class Listed(NamedTuple):
    """One message: its literal ``parts`` with ``fields`` between them, its class, and where it is raised.

    ``place`` is a file of torch or a library. ``telling`` says that it is known by its words alone, of which ``anchor``
    is the longest run.
    """

    parts: tuple[str, ...]
    fields: tuple[str, ...]
    exception: str
    place: str
    telling: bool
    anchor: str

    @property
    def area(self) -> str:
        """The module of torch that says it, as ``torch.nn.parallel``."""
        return ".".join(self.place.removesuffix(".py").split("/")[:-1][:3]) or "torch"


@dataclass(frozen=True)
class Place:
    """Where a listed message stands in a flat text, and what its fields hold there."""

    message: Listed
    start: int
    end: int
    fields: dict[str, str]


@functools.cache
def messages() -> tuple[Listed, ...]:
    """All of them, in the order of the file."""
    text = resources.files("graphdoc.messages").joinpath("listed.txt").read_text(encoding="utf-8")
    return tuple(_parsed(text))


def _parsed(text: str) -> Iterator[Listed]:
    place = ""
    for line in text.splitlines():
        exception, tab, template = line.partition("\t")
        if not tab:
            place = line
            continue
        pieces = _FIELD.split(template)
        parts = tuple(pieces[::2])
        kind = exception.removesuffix(FEW_WORDS)
        yield Listed(parts, tuple(pieces[1::2]), kind, place, kind == exception, max(parts, key=len))


@functools.cache
def _by_word() -> dict[str, tuple[int, ...]]:
    """For each word, the telling messages of which it is the longest that stands whole in the text."""
    index: dict[str, list[int]] = {}
    for number, message in enumerate(messages()):
        if message.telling:
            # The first and the last word may go on in what surrounds them.
            words = _WORD.findall(message.anchor)[1:-1]
            index.setdefault(max(words, key=len, default=""), []).append(number)
    return {word: tuple(numbers) for word, numbers in index.items()}


@functools.cache
def _tight_anchors() -> tuple[str, ...]:
    return tuple(message.anchor.replace(" ", "") if message.telling else "" for message in messages())


def find(flat: Flat, tight: bool = False) -> list[Place]:
    """The listed messages that a text holds and that their words alone tell; ``tight`` for text without spaces.

    Of those that overlap the one with the most words counts.
    """
    known = messages()
    if tight:
        numbers = [n for n, anchor in enumerate(_tight_anchors()) if anchor and anchor in flat.text]
    else:
        index = _by_word()
        present = index.keys() & set(_WORD.findall(flat.text))
        numbers = sorted(n for word in (*present, "") for n in index.get(word, ()))
    found = [place for n in numbers for place in _places(flat, known[n], tight)]
    chosen: list[Place] = []
    for place in sorted(found, key=lambda p: -sum(map(len, p.message.parts))):
        if all(place.end <= other.start or other.end <= place.start for other in chosen):
            chosen.append(place)
    return sorted(chosen, key=lambda p: p.start)


def raised_in(flat: Flat, file: str) -> Place | None:
    """The listed message of torch's ``file`` that a text begins with: few words are enough where the place is known."""
    file = file.replace("\\", "/")
    own = [message for message in messages() if message.place[-1] == "y" and file.endswith("/" + message.place)]
    found = (place for message in own for place in _places(flat, message, tight=False))
    first = [place for place in found if place.start <= 1]
    return max(first, key=lambda p: sum(map(len, p.message.parts)), default=None)


def _places(flat: Flat, message: Listed, tight: bool) -> Iterator[Place]:
    text = flat.text
    parts = tuple(part.replace(" ", "") for part in message.parts) if tight else message.parts
    if any(part and part not in text for part in parts):
        return
    first = next(i for i, part in enumerate(parts) if part)
    at = text.find(parts[first])
    for _ in range(_MOST_LOOKS):
        if at < 0:
            return
        start = _start(flat, message, at, first, tight)
        place = _at(flat, message, parts, first, start, at) if start >= 0 else None
        if place is not None:
            yield place
            return
        at = text.find(parts[first], at + 1)


def _start(flat: Flat, message: Listed, at: int, first: int, tight: bool) -> int:
    """Where the message begins whose first words stand at ``at``; -1 where nothing begins there.

    Pieces from a library can stand anywhere in a message.
    """
    text = flat.text
    if not message.place.endswith(".py"):
        return at
    if first == 0:
        free = at == 0 or at - 1 in flat.breaks or at in flat.breaks or _BEFORE.search(text[max(0, at - 2) : at])
        return at if free or tight else -1
    lowest = max(0, at - _LONGEST_VALUE)
    line = max((b + 1 for b in flat.breaks if lowest <= b < at), default=0)
    colon = text.rfind("Error: ", lowest, at)
    start = max(line, colon + 7 if colon >= 0 else 0)
    return start if lowest <= start or lowest == 0 else -1


def _at(flat: Flat, message: Listed, parts: tuple[str, ...], first: int, start: int, at: int) -> Place | None:
    """The message with its parts behind one another from ``at`` on; each gap holds one value, the nearest it can be."""
    text = flat.text
    values: dict[str, str] = {}
    if first:
        values[message.fields[0]] = text[start:at]
    end = at + len(parts[first])
    last = len(parts) - 1
    for i in range(first + 1, len(parts)):
        if i == last and not parts[i].strip():
            close = min(flat.line_end(end, len(text)), end + _LONGEST_VALUE)
            values.setdefault(message.fields[i - 1], text[end:close])
            return Place(message, start, close, _named(values))
        found = text.find(parts[i], end, end + _LONGEST_VALUE + len(parts[i]))
        if found < 0:
            return None
        values.setdefault(message.fields[i - 1], text[end:found])
        end = found + len(parts[i])
    return Place(message, start, end, _named(values))


def _named(values: dict[str, str]) -> dict[str, str]:
    return {name: value.strip() for name, value in values.items() if value.strip()}
