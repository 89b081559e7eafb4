"""The known messages, read from patterns.json: each with its literal anchor, so that looking for it is quick."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from dataclasses import dataclass
from importlib import resources
from typing import Any

GROUPS = (
    "second-backward",
    "inplace",
    "no-grad",
    "higher-order",
    "misuse",
    "nonfinite",
    "distributed",
    "checkpoint",
    "compile",
    "other",
)

# What a wording has for versions that is only the beginning of a message.
CUT_OFF = "truncated"
# The first sentence of a message speaks for it where so much of it stands fast: shorter ones other programs print too.
_LEAST_ANCHOR = 35


@dataclass(frozen=True)
class Wording:
    """One way in which a message is or was written.

    ``pattern`` is a regular expression over text with single spaces, in which every repetition is bounded. ``anchor``
    is its longest literal part, ``before`` the most characters that can stand between its start and the anchor.
    ``partial`` marks the beginning of a message that may have been cut off.
    """

    pattern: str
    versions: str
    anchor: str
    before: int
    example: str = ""

    @property
    def partial(self) -> bool:
        return self.versions == CUT_OFF


@dataclass(frozen=True)
class Entry:
    """One known message. ``causes`` are slugs of the catalogue of causes, the likeliest first; may be empty.

    ``group`` is the coarse kind that causes go by (one of GROUPS), ``family`` the fine one. ``means`` says in plain
    words what the message means. ``versions`` tells since or until when PyTorch printed it, where that is known.
    ``generic`` marks words that other programs print as well: they count only where other things speak for it.
    """

    id: str
    kind: str
    exception: str
    family: str
    group: str
    versions: str
    causes: tuple[str, ...]
    means: str
    example: str
    wordings: tuple[Wording, ...]
    generic: bool = False


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
    return Entry(
        id=item["id"],
        kind=item["kind"],
        exception=item["exception"],
        family=item["family"],
        group=item["group"],
        versions=item["versions"],
        causes=tuple(item["causes"]),
        means=item["means"],
        example=item["example"],
        wordings=(first, *others),
        generic=generic,
    )


def _wording(pattern: str, versions: str, example: str) -> Wording:
    anchor, before = anchor_of(pattern)
    return Wording(pattern, versions, anchor, before, example)


def first_sentence(pattern: str) -> str:
    """The pattern of a message's first sentence without its full stop, or nothing where that says too little.

    Titles and search boxes carry no more of a message, and the advice behind its first sentence is what a release
    rewords.
    """
    opened = i = 0
    while i < len(pattern):
        if pattern.startswith("\\.", i) and not opened and pattern[i + 2 : i + 3] in ("", " "):
            beginning = pattern[:i]
            # An open field at the end would take a single character.
            told = not beginning.endswith((")", "?", "}"))
            if told and len(anchor_of(beginning)[0]) >= _LEAST_ANCHOR:
                return beginning
        opened += {"(": 1, ")": -1}.get(pattern[i], 0)
        i = i + 1 if pattern[i] in "()" else _character(pattern, i)[1]
    return ""


_REPEAT = re.compile(r"\{(\d+),(\d+)\}|[?]")
_OPENING = re.compile(r"\(\?(?:P<\w+>|:|>)|\(")


def anchor_of(pattern: str) -> tuple[str, int]:
    """The longest literal run outside all groups, and the most characters that can precede it."""
    best, best_before = "", 0
    run: list[str] = []
    run_before = width = 0
    opened: list[int] = []
    i, end = 0, len(pattern)

    def close_run() -> None:
        nonlocal best, best_before, run
        if len(run) > len(best):
            best, best_before = "".join(run), run_before
        run = []

    while i < end:
        c = pattern[i]
        if c == "(":
            close_run()
            opened.append(width)
            skip = _OPENING.match(pattern, i)
            i = skip.end() if skip else i + 1
            continue
        if c == "|":
            i += 1
            continue
        before_atom = width
        if c == ")":
            before_atom, literal, i = opened.pop(), "", i + 1
        else:
            literal, i = _character(pattern, i)
            width += 1
        repeat = _REPEAT.match(pattern, i)
        if literal and not repeat and not opened:
            if not run:
                run_before = before_atom
            run.append(literal)
            continue
        close_run()
        if repeat:
            if repeat.group(2):
                width += (width - before_atom) * (int(repeat.group(2)) - 1)
            i = repeat.end()
            if pattern[i : i + 1] == "?":
                i += 1
    close_run()
    return best, best_before


def _character(pattern: str, i: int) -> tuple[str, int]:
    """The character that must stand at ``i`` (empty where several may), and the place behind it in the pattern."""
    if pattern[i] == "[":
        close = i + 2 if pattern[i + 1] == "^" else i + 1
        while pattern[close] != "]":
            close += 2 if pattern[close] == "\\" else 1
        return "", close + 1
    if pattern[i] == "\\":
        return pattern[i + 1] if not pattern[i + 1].isalnum() else "", i + 2
    return pattern[i] if pattern[i] != "." else "", i + 1
