"""The known messages, and which of them a text holds: the first step from a log or an exception to a cause."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from graphdoc.messages.flat_text import Flat, clean, flatten, squeeze

# The known messages, read from patterns.json: each with its literal anchor, so that looking for it is quick.

# What a wording has for versions that is only the beginning of a message.
CUT_OFF = "truncated"
# The first sentence of a message speaks for it where so much of it stands fast: shorter ones other programs print too.
_LEAST_ANCHOR = 35


@dataclass(frozen=True)
class Wording:
    """One way in which a message is or was written.

    ``pattern`` is a regular expression over text with single spaces, in which every repetition is bounded. ``anchor``
    is its longest literal part, ``begins`` whether the message begins with it. ``partial`` marks the beginning of a
    message that may have been cut off.
    """

    pattern: str
    versions: str
    anchor: str
    begins: bool
    example: str = ""

    @property
    def partial(self) -> bool:
        return self.versions == CUT_OFF


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a message. ``causes`` are slugs of the catalogue of causes, the likeliest first; may be empty.

    ``group`` is the coarse kind that causes go by (``inplace``), ``family`` the fine one. ``means`` says in plain
    words what the message means. ``generic`` marks words that other programs print as well: they count only where other
    things speak for it.
    """

    id: str
    kind: str
    exception: str
    family: str
    group: str
    causes: tuple[str, ...]
    means: str
    generic: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry(Known):
    """One known message. ``versions`` tells since or until when PyTorch printed it, where that is known."""

    versions: str
    example: str
    wordings: tuple[Wording, ...]


@functools.cache
def entries() -> tuple[Entry, ...]:
    """All known messages, in the order of the file."""
    data: list[dict[str, Any]] = json.loads(
        resources.files("graphdoc.messages").joinpath("patterns.json").read_text(encoding="utf-8")
    )
    return tuple(_entry(item) for item in data)


@functools.cache
def wordings() -> tuple[tuple[Entry, Wording], ...]:
    """Every wording with its entry, in the order of the file."""
    return tuple((entry, wording) for entry in entries() for wording in entry.wordings)


WORD = re.compile(r"\w+")


@functools.cache
def by_word() -> dict[str, tuple[int, ...]]:
    """For each telling word, the indices in ``wordings`` of those in whose anchor it is the rarest one.

    A text without the word cannot hold the wording; so few of them have to be looked for in a short text.
    """
    counts = Counter(word for _, wording in wordings() for word in set(WORD.findall(wording.anchor)))
    found: dict[str, list[int]] = {}
    for index, (_, wording) in enumerate(wordings()):
        # The first and the last word may go on in what surrounds the anchor.
        words = [m for m in WORD.finditer(wording.anchor) if m.start() > 0 and m.end() < len(wording.anchor)]
        word = min((m.group() for m in words), key=lambda w: (counts[w], -len(w)), default="")
        found.setdefault(word, []).append(index)
    return {word: tuple(indices) for word, indices in found.items()}


@functools.cache
def compiled(pattern: str, tight: bool = False) -> re.Pattern[str]:
    """The compiled pattern; ``tight`` for text from which all spaces were taken."""
    return re.compile(pattern.replace(" ?", "").replace(" ", "") if tight else pattern, re.DOTALL)


def _entry(item: dict[str, Any]) -> Entry:
    first = _wording(item["pattern"], item["versions"], item["example"])
    others = [_wording(a["pattern"], a["versions"], a.get("example", "")) for a in item["aliases"]]
    generic = item.get("generic", False)
    beginning = "" if generic else first_sentence(item["pattern"])
    if beginning and beginning not in (w.pattern for w in others):
        others.append(_wording(beginning, CUT_OFF, item["example"]))
    told = {f.name: item[f.name] for f in dataclasses.fields(Entry) if f.name in item}
    return Entry(**{**told, "causes": tuple(item["causes"]), "wordings": (first, *others)})


def _wording(pattern: str, versions: str, example: str) -> Wording:
    anchor, begins, _ = anchor_of(pattern)
    return Wording(pattern, versions, anchor, begins, example)


def first_sentence(pattern: str) -> str:
    """The pattern of a message's first sentence without its full stop, or nothing where that says too little.

    Titles and search boxes carry no more of a message, and the advice behind its first sentence is what a release
    rewords.
    """
    for stop in _FULL_STOP.finditer(pattern):
        beginning = pattern[: stop.start()]
        anchor, _, opened = anchor_of(beginning)
        # An open field at the end would take a single character.
        if not opened and not beginning.endswith((")", "?", "}")) and len(anchor) >= _LEAST_ANCHOR:
            return beginning
    return ""


_FULL_STOP = re.compile(r"\\\.(?= |$)")
_TOKEN = re.compile(
    r"(?P<plain>(?:(?:[^\\\[().?{|]|\\[^\w])(?![?{]))+)"  # stand for themselves, and none of them is repeated
    r"|\[\^?(?:\\.|[^\]\\])*\]|\(\?(?:P<\w+>|[:>])|\{\d+,\d+\}|\\?.",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def anchor_of(pattern: str) -> tuple[str, bool, int]:
    """The longest literal run outside all groups, whether the pattern begins with it, and how many groups are open at
    the end."""
    best, begins, opened = "", True, 0
    for token in _TOKEN.finditer(pattern):
        opened += token[0].startswith("(") - (token[0] == ")")
        if token["plain"] and not opened:
            run = _ESCAPED.sub(r"\1", token["plain"])
            if len(run) > len(best):
                best, begins = run, token.start() == 0
    return best, begins, opened


# Which known messages a text holds, and what they say: the first step from a log or an exception to a cause.

# A hostile text can repeat an anchor without end; an honest one does not need more looks than this.
_MOST_LOOKS = 200
# The longest that any message can be, counted from its anchor.
_REACH = 4000
# The most characters that stand before the anchor of any.
_BEFORE = 1000
# Only pasted text has words broken in two; a longer one is a log, whose lines are whole.
_MOST_SQUEEZED = 65536
# One diagnosis asks for a message or two; the index of words pays from here on.
_FEW = 10
_SHORT = 2000
_asked = itertools.count()
# Jobs repeat themselves: the same message from every rank, from every retry.
_MOST_CACHED = 8192


@dataclass(frozen=True, kw_only=True)
class Match(Known):
    """A known message found in a text.

    ``fields`` are the named parts (shape, dtype, op, version, expected, index, ...), neutralised for display.
    ``start`` and ``end`` are places in the text as it was given. ``also`` names other entries with the same wording.
    ``listed`` says that it is known from the list of PyTorch's own messages: where it comes from is all there is to
    tell, and nothing follows for the graph.
    """

    fields: dict[str, str]
    start: int
    end: int
    partial: bool = False
    also: tuple[str, ...] = ()
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
        place = _raised_in(flat, file)
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
    found = _find_listed(flat)
    if not found and squeezed and flat.breaks and len(flat.text) <= _MOST_SQUEEZED:
        flat = squeeze(flat)
        found = _find_listed(flat, tight=True)
    return [_as_listed(place, flat) for place in found[:limit]]


def _as_listed(place: Place, flat: Flat) -> Match:
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
        looks = found = last = 0
        while at >= 0 and looks < _MOST_LOOKS and found < limit:
            looks += 1
            match = _look(text, wording, at, last, tight)
            after = at + 1
            if match is not None:
                found += 1
                last = after = max(after, match.end())
                yield _Hit(entry, wording, match, match.start(), _end_of(flat, match))
            at = text.find(anchor, after)


def _worth_looking(text: str) -> Sequence[int]:
    """The wordings whose rarest word is in the text, in their order; all of them for the first few short texts, in
    which they are looked for sooner than the index of words is made."""
    if len(text) <= _SHORT and next(_asked) < _FEW:
        return range(len(wordings()))
    index = by_word()
    words = index.keys() & WORD.findall(text)
    return sorted(i for word in (*words, "") for i in index.get(word, ()))


def _look(text: str, wording: Wording, at: int, last: int, tight: bool) -> re.Match[str] | None:
    """The wording around the anchor that stands at ``at``; ``last`` is the end of the one before it."""
    pattern = compiled(wording.pattern, tight)
    if wording.begins:
        return pattern.match(text, at, at + _REACH)
    return pattern.search(text, max(last, at - _BEFORE), at + _REACH)


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
        **{f.name: getattr(entry, f.name) for f in dataclasses.fields(Known)},
        fields=fields,
        start=flat.original(start),
        end=flat.original(end - 1) + 1 if end > start else flat.original(start),
        partial=hit.wording.partial,
        also=tuple(also),
    )


# What is known of a message that no pattern takes: where it is raised. ``listed.txt`` is made from an installed torch
# by tests/messages/inventory.py and never edited by hand.


# How many characters a value can have in a message.
_LONGEST_VALUE = 300
FEW_WORDS = "?"
"""Stands behind the class of a message that is not known by its words alone."""
_WORD = re.compile(r"\w+")
_FIELD = re.compile(r"⟨([^⟩]*)⟩")
# What can stand right before a message: the class of the exception, a line's end, a quote mark.
_RIGHT_BEFORE = re.compile(r"(?:[:>\])|\"'`] ?|^ ?)$")
_MOST_TRIES = 50


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


def _find_listed(flat: Flat, tight: bool = False) -> list[Place]:
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


def _raised_in(flat: Flat, file: str) -> Place | None:
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
    for _ in range(_MOST_TRIES):
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
        free = at == 0 or at - 1 in flat.breaks or at in flat.breaks or _RIGHT_BEFORE.search(text[max(0, at - 2) : at])
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
