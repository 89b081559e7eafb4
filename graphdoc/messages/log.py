"""Failures in a job's log, read as a stream: several ranks, several failures, whatever CI has done to the lines."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import BinaryIO

from graphdoc.messages.assemble import Assembler
from graphdoc.messages.failure import Failure
from graphdoc.messages.flat_text import clean
from graphdoc.messages.prefixes import LONGEST_LINE, peel, rank_of
from graphdoc.messages.recognise import Match, recognise

_CHUNK = 1 << 20
# Where a log is not reporting a failure, lines are skipped until one holds a word of a failure.
_TRIGGER = re.compile(
    r"Traceback|[a-z]Error\b|Exception\b|Warning: |\[W|Unsupported\b"
    r"|During handling of|direct cause of the"
    r"|rying to backward|inplace operation|in-place operation|modified inplace|have a grad_fn|scalar outputs"
    r"|been used in the graph|volatile|finished reduction|ready only once|requires grad\. |nan values in its"
)
# A paste is looked through as a whole too: in it a message may stand alone, without any word of a failure near.
_PASTE = 1 << 20
# Known messages and other exceptions are kept up to so many each; more are counted with the first ones only.
_MOST_FAILURES = 200
# No job has more processes: labels beyond are noise.
_MOST_PROCESSES = 100_000


def read_log(stream: BinaryIO) -> list[Failure]:
    """The failures in a log, in the order in which they end; those that are known messages, and plain exceptions.

    Reads in pieces and keeps only what it finds, so a log of any size will do. Bytes that are not UTF-8 are replaced.
    Never raises for any content.
    """
    book = _Book()
    assemblers: dict[str, Assembler] = {}
    head: list[str] | None = []
    size = number = 0
    for chunk in _chunks(stream):
        if head is not None:
            size += len(chunk)
            if size <= _PASTE:
                head.append(chunk)
            else:
                head = None
        number = _read(chunk, number, assemblers, book)
    for assembler in assemblers.values():
        assembler.close()
    if head is not None:
        book.add_bare("".join(head))
    return book.failures


def _read(chunk: str, number: int, assemblers: dict[str, Assembler], book: _Book) -> int:
    """Read whole lines; returns the number of the last one."""
    position, end = 0, len(chunk)
    quiet = number + 1000
    busy = {label: a for label, a in assemblers.items() if a.busy}
    while position < end:
        if not busy:
            found = _TRIGGER.search(chunk, position)
            if found is None:
                return number + chunk.count("\n", position)
            start = chunk.rfind("\n", position, found.start()) + 1
            if start:
                number += chunk.count("\n", position, start)
                position = start
        close = chunk.find("\n", position)
        close = end if close < 0 else close
        number += 1
        label, line, _ = peel(chunk[position : min(close, position + LONGEST_LINE)])
        position = close + 1
        assembler = assemblers.get(label)
        if assembler is None:
            assembler = assemblers[label] = Assembler(label, book.add)
            if len(assemblers) > _MOST_PROCESSES:
                assemblers.clear()
                busy.clear()
                assemblers[label] = assembler
        assembler.feed(line, number)
        if assembler.busy:
            busy[label] = assembler
        else:
            busy.pop(label, None)
        if busy and number >= quiet:
            # A process that fell silent in the middle of something must not keep us reading every line.
            quiet = number + 1000
            for other in busy.values():
                other.tick(number, len(assemblers))
            busy = {label: a for label, a in busy.items() if a.busy}
    return number


def _chunks(stream: BinaryIO) -> Iterator[str]:
    """The stream as text in pieces of whole lines; a line without end is cut."""
    rest = b""
    while piece := stream.read(_CHUNK):
        piece = rest + piece
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, -1)) + 1
        if not cut and len(piece) < 4 * _CHUNK:
            rest = piece
            continue
        if not cut:
            cut = len(piece)
        rest = piece[cut:]
        yield _text(piece[:cut])
    if rest:
        yield _text(rest)


def _text(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data.count(b"\x00", 0, 4096) > min(len(data), 4096) // 3:
        data = data.replace(b"\x00", b"")  # UTF-16 of mostly ASCII text, as PowerShell writes it
    text = data.decode("utf-8", "replace")
    if "\ufeff" in text:
        text = text.replace("\ufeff", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


class _Book:
    """Collects failures: the same one on another rank, or again on the same one, is counted instead of kept."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._known: dict[tuple[object, ...], Failure] = {}
        self._kept = {True: 0, False: 0}
        self._labels: dict[int, set[str]] = {}
        """The labels of each failure, by its identity: a list of thousands is slow to search."""

    def add(self, failure: Failure, label: str) -> None:
        key = (
            failure.type,
            failure.match.id if failure.match else "",
            failure.message,
            tuple((f.file, f.line) for f in failure.frames if f.user),
        )
        rank = rank_of(label)
        label = clean(label)
        known = self._known.get(key) or self._echoed(failure)
        if known is None:
            kind = failure.match is not None
            if self._kept[kind] >= _MOST_FAILURES:
                return
            self._kept[kind] += 1
            self._known[key] = failure
            self.failures.append(failure)
            known = failure
        labels = self._labels.setdefault(id(known), set())
        if known is not failure and (label in labels or not label):
            known.count += 1
        if not known.forward and failure.forward:
            known.forward, known.forward_op = failure.forward, failure.forward_op
        if label and label not in labels and len(labels) < _MOST_PROCESSES:
            labels.add(label)
            known.labels.append(label)
            place = bisect_left(known.ranks, rank)
            if rank >= 0 and known.ranks[place : place + 1] != [rank]:
                known.ranks.insert(place, rank)

    def _echoed(self, failure: Failure) -> Failure | None:
        """The failure that this one, which has no traceback, only repeats: a summary line, a logger's own."""
        match = failure.match
        if match is None or failure.frames:
            return None
        for known in self.failures:
            other = known.match
            if other is not None and other.family == match.family and (match.partial or _within(match, other)):
                return known
        return None

    def add_bare(self, text: str) -> None:
        """Known messages that stand in a paste without a traceback and were not read with one."""
        for match in recognise(text):
            if (match.kind == "warning" or match.listed) and self.failures:
                continue
            # Words that any program prints are a message where they are all that was pasted, not among a log's lines.
            # A listed one is often cut: more of it may follow.
            after = "" if match.listed else text[match.end :].partition("\n")[2]
            around = text[: match.start].rpartition("\n")[0] + after
            if (match.generic or match.listed) and around.strip():
                continue
            raw = clean(text[match.start : match.end])
            joined = raw.replace("\n", "")
            broken = not recognise(raw, squeezed=False) and bool(recognise(joined, squeezed=False))
            message = " ".join((joined if broken else raw).split())
            line = text.count("\n", 0, match.start) + 1
            failure = Failure(match.exception, message, match, line=line)
            if self._echoed(failure) is None:
                self.add(failure, "")


def _within(match: Match, other: Match) -> bool:
    """Whether a match says nothing that the other one does not say."""
    same = match.id in (other.id, *other.also) or other.id in match.also or bool(match.fields)
    told = {name: value.replace(" ", "") for name, value in other.fields.items()}
    return same and all(told.get(name) == value.replace(" ", "") for name, value in match.fields.items())
