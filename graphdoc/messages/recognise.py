"""Which known messages a text holds, and what they say: the first step from a log or an exception to a cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from graphdoc.messages import listed
from graphdoc.messages.flat_text import Flat, clean, flatten, squeeze
from graphdoc.messages.known_messages import WORD, Entry, Wording, by_word, compiled, wordings

# A hostile text can repeat an anchor without end; an honest one does not need more looks than this.
_MOST_LOOKS = 200
# The longest that any message can be, counted from its anchor.
_REACH = 4000
# Only pasted text has words broken in two; a longer one is a log, whose lines are whole.
_MOST_SQUEEZED = 65536
# Jobs repeat themselves: the same message from every rank, from every retry.
_MOST_CACHED = 8192


@dataclass(frozen=True)
class Match:
    """A known message found in a text.

    ``fields`` are the named parts (shape, dtype, op, version, expected, index, ...), neutralised for display.
    ``causes`` are the slugs that the message alone allows, likeliest first. ``start`` and ``end`` are places in the
    text as it was given. ``also`` names other entries with the same wording. ``generic`` says that other programs
    print these words too. ``listed`` says that it is known from the list of PyTorch's own messages: where it comes from
    is all there is to tell, and nothing follows for the graph.
    """

    id: str
    kind: str
    exception: str
    family: str
    group: str
    fields: dict[str, str]
    causes: tuple[str, ...]
    means: str
    start: int
    end: int
    partial: bool = False
    also: tuple[str, ...] = field(default=())
    generic: bool = False
    listed: bool = False


@dataclass(frozen=True)
class _Hit:
    """A wording found at a place of a flat text."""

    entry: Entry
    wording: Wording
    found: re.Match[str]
    start: int
    end: int


def recognise(text: str, limit: int = 20, squeezed: bool = True) -> list[Match]:
    """The known messages in a text, in the order in which they stand, at most ``limit``.

    White space, line wraps, colours and quote marks make no difference. Of overlapping matches the one that explains
    most of the text wins; a message that was cut off is found by its beginning. ``squeezed`` looks, where nothing
    whole was found, for words that a line wrap broke in two. Never raises for any text.

    Where none of the messages with a meaning written for them is found, those of PyTorch's own list are looked for.
    """
    if len(text) <= _MOST_CACHED:
        return list(_cached(text, limit, squeezed))
    return _recognise(text, limit, squeezed)


def recognise_exception(type_name: str, message: str) -> Match | None:
    """The known message that an exception carries, or None; one that is only listed counts for none.

    The first one counts; fields of further parts of the same message (the parameter list of a DDP error) are added.
    """
    return strongest([m for m in recognise(message) if not m.listed], type_name)


def listed_of(type_name: str, message: str, files: Iterable[str] = ()) -> Match | None:
    """The message of PyTorch's own list that an exception carries; ``files`` are those of its innermost frames.

    A message in few words is known only where one of them is the file of torch that raises it.
    """
    flat = flatten(message[:_REACH])
    for file in files:
        place = listed.raised_in(flat, file)
        if place is not None:
            return _as_listed(place, flat)
    found = [m for m in recognise(message[:_REACH]) if m.listed and _can_be(m, type_name.rpartition(".")[2])]
    return strongest(found, type_name)


def _can_be(match: Match, name: str) -> bool:
    """Whether a listed message can come as this exception: C++ maps its own, and some code chooses the class late."""
    late = not match.exception.endswith(("Error", "Exception", "Warning", "Unsupported"))
    return match.exception == name or late or not match.id.endswith(".py")


def strongest(matches: list[Match], type_name: str) -> Match | None:
    """The match that speaks for an exception of this type, with the fields of the other parts of its message."""
    if not matches:
        return None
    short = type_name.rpartition(".")[2]
    first = next((m for m in matches if m.kind == "error" and m.exception == short), None)
    first = first or next((m for m in matches if m.kind == "error"), matches[0])
    fields: dict[str, str] = {}
    for other in matches:
        if other.family == first.family:
            fields = {**other.fields, **fields}
    return replace(first, fields={**fields, **first.fields})


@lru_cache(maxsize=256)
def _cached(text: str, limit: int, squeezed: bool) -> tuple[Match, ...]:
    return tuple(_recognise(text, limit, squeezed))


def _recognise(text: str, limit: int, squeezed: bool) -> list[Match]:
    flat = flatten(text)
    matches = _select(_hits(flat, limit, tight=False), flat, limit)
    if squeezed and flat.breaks and len(flat.text) <= _MOST_SQUEEZED and all(m.partial for m in matches):
        flat = squeeze(flat)
        again = _select(_hits(flat, limit, tight=True), flat, limit)
        if not matches or any(not m.partial for m in again):
            matches = again
    return matches or _listed(text, limit, squeezed)


def _listed(text: str, limit: int, squeezed: bool) -> list[Match]:
    flat = flatten(text)
    found = listed.find(flat)
    if not found and squeezed and flat.breaks and len(flat.text) <= _MOST_SQUEEZED:
        flat = squeeze(flat)
        found = listed.find(flat, tight=True)
    return [_as_listed(place, flat) for place in found[:limit]]


def _as_listed(place: listed.Place, flat: Flat) -> Match:
    message = place.message
    kind = "warning" if message.exception.endswith("Warning") else "error"
    says = "warns of this" if kind == "warning" else "raises this"
    return Match(
        id=message.place,
        kind=kind,
        exception=message.exception,
        family=message.area,
        group="other",
        fields={name: clean(value) for name, value in place.fields.items()},
        causes=(),
        means=f"PyTorch {says} in {message.place}. graphdoc knows the message and no cause for it.",
        start=flat.original(place.start),
        end=flat.original(place.end - 1) + 1,
        listed=True,
    )


def _hits(flat: Flat, limit: int, tight: bool) -> Iterator[_Hit]:
    text = flat.text
    known = wordings()
    for index in range(len(known)) if tight else _worth_looking(text):
        entry, wording = known[index]
        anchor = wording.anchor.replace(" ", "") if tight else wording.anchor
        at = text.find(anchor)
        looks = found = 0
        while at >= 0 and looks < _MOST_LOOKS and found < limit:
            looks += 1
            match = _look(text, wording, at, tight)
            after = at + 1
            if match is not None:
                found += 1
                after = max(after, match.end())
                yield _Hit(entry, wording, match, match.start(), _end_of(flat, match))
            at = text.find(anchor, after)


def _worth_looking(text: str) -> list[int]:
    """The wordings whose rarest word is in the text, in their order."""
    index = by_word()
    words = index.keys() & WORD.findall(text)
    return sorted(i for word in (*words, "") for i in index.get(word, ()))


def _look(text: str, wording: Wording, at: int, tight: bool) -> re.Match[str] | None:
    pattern = compiled(wording.pattern, tight)
    if not wording.before:
        return pattern.match(text, at, at + _REACH)
    return pattern.search(text, max(0, at - wording.before), at + _REACH)


def _end_of(flat: Flat, match: re.Match[str]) -> int:
    """Where a match ends: an open-ended field at its end goes to the end of its line, not into the next one."""
    end = match.end()
    if flat.breaks and match.lastindex and match.end(match.lastindex) == end:
        return flat.line_end(match.start(match.lastindex), end)
    return end


def _select(hits: Iterator[_Hit], flat: Flat, limit: int) -> list[Match]:
    """Of hits that overlap keep the longest whole one; entries with the very same words are named beside it."""
    chosen: list[tuple[_Hit, list[str]]] = []
    for hit in sorted(hits, key=lambda h: (h.wording.partial, h.start - h.end)):
        rival = next((c for c in chosen if hit.start < c[0].end and c[0].start < hit.end), None)
        if rival is None:
            chosen.append((hit, []))
        elif (rival[0].start, rival[0].end) == (hit.start, hit.end) and hit.entry.id not in (
            rival[0].entry.id,
            *rival[1],
        ):
            rival[1].append(hit.entry.id)
    chosen.sort(key=lambda c: c[0].start)
    return [_described(hit, flat, also) for hit, also in chosen[:limit]]


def _described(hit: _Hit, flat: Flat, also: list[str]) -> Match:
    entry, start, end = hit.entry, hit.start, hit.end
    fields: dict[str, str] = {}
    for name, value in hit.found.groupdict().items():
        if value is not None:
            first, last = hit.found.span(name)
            fields[name] = clean(flat.text[first : max(first, min(last, end))]).strip()
    return Match(
        id=entry.id,
        kind=entry.kind,
        exception=entry.exception,
        family=entry.family,
        group=entry.group,
        fields=fields,
        causes=entry.causes,
        means=entry.means,
        start=flat.original(start),
        end=flat.original(end - 1) + 1 if end > start else flat.original(start),
        partial=hit.wording.partial,
        also=tuple(also),
        generic=entry.generic,
    )
