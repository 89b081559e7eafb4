"""Failures in a job's log, read as a stream: prefixes off, lines of one process put together, tracebacks whole."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from graphdoc.evidence import Frame
from graphdoc.messages import own_reports
from graphdoc.messages import traceback_lines as parse
from graphdoc.messages.flat_text import ESCAPES, clean
from graphdoc.messages.recognise import Match, listed_of, recognise, strongest

# One failure read from a log: the exception, where it passed, what anomaly mode said, and who else printed it.


@dataclass
class Failure:
    """One exception (or bare message) in a log, neutralised for display; the same on several ranks is one Failure.

    ``ranks`` are the numbers of the processes that printed it (empty where the log names none), ``labels`` their
    names as printed. ``frames`` are the traceback, outermost first; ``forward`` the frames of anomaly mode's forward
    trace and ``forward_op`` the node that it names. ``code`` maps (file, line) to the source line that the log
    shows. ``chain`` holds the exceptions behind this one, ``line`` counts lines of the log from 1. ``truncated``
    tells that the log ended, or lost its thread, before the message. ``report`` is what graphdoc itself said of it in
    this log, where it had watched the run.
    """

    type: str
    message: str
    match: Match | None = None
    frames: list[Frame] = field(default_factory=list)
    forward: list[Frame] = field(default_factory=list)
    forward_op: str = ""
    warnings: list[str] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    code: dict[tuple[str, int], str] = field(default_factory=dict)
    chain: list[str] = field(default_factory=list)
    line: int = 0
    count: int = 1
    truncated: bool = False
    report: str = ""

    @property
    def rank(self) -> int:
        """The first rank that printed it, or -1."""
        return self.ranks[0] if self.ranks else -1

    @property
    def place(self) -> Frame | None:
        """The innermost frame of the user's own code, or None."""
        return next((f for f in reversed(self.frames) if f.user), None)


# Puts the lines of one process together again: traceback, message over several lines, anomaly mode's forward trace.

_MOST_FRAMES = 1000
_MOST_WARNINGS = 20
# How many lines of the same process may stand inside a traceback without belonging to it.
_NOISE = 25
# A process that says nothing more for so many lines of the whole log has ended.
_SILENCE = 5000
# Lines of a message after its first one that are looked at, and the families whose messages go on so long.
_FOLLOWING = 8
_LONG = {"ddp": 12, "checkpoint": 40, "compile": 12, "gradcheck": 12, "functorch": 8}
_LONGEST_MESSAGE = 6000
# Frames at the end of a traceback of which one can be torch's that raised: its helpers stand behind it.
_DEEPEST = 4
# Messages of unknown exceptions that are looked at again for words broken by a terminal's edge.
_SQUEEZES = 200
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
# Python draws a line beside the members of an exception group.
_MARGIN = re.compile(r" {0,36}\| ")


def _written(text: str, squeezed: bool = False) -> list[Match]:
    return [m for m in recognise(text, squeezed=squeezed) if not m.listed]


class Assembler:
    """Reads the lines of one process, already without prefixes, and hands over each failure as it is complete.

    ``busy`` tells whether something has begun that is not complete.
    """

    def __init__(self, label: str, add: Callable[[Failure, str], Failure]) -> None:
        self.label = label
        self._add = add
        self.busy = False
        self._state: Callable[[str], bool] = self._idle
        self._seen = 0
        self._forward: list[Frame] = []
        self._forward_op = ""
        self._forward_code: dict[tuple[str, int], str] = {}
        self._warnings: list[str] = []
        self._looked: set[str] = set()
        self._chain: list[str] = []
        self._last = ""
        self._raised: Failure | None = None
        self._reports: set[str] = set()
        self._squeezes = _SQUEEZES
        self._reset()

    def _reset(self) -> None:
        self._frames: list[Frame] = []
        self._code: dict[tuple[str, int], str] = {}
        self._type = ""
        self._lines: list[str] = []
        self._room = 0
        self._noise = 0
        self._start = 0
        self._inner = False

    def feed(self, line: str, number: int) -> None:
        """Take the next line of this process; ``number`` counts the lines of the whole log."""
        self._seen = number
        if "|" in line[:40] and self._state != self._report:
            line = _MARGIN.sub("", line)
        for _ in range(3):  # a line that ends one thing can begin another
            if self._state(line):
                return

    def tick(self, number: int, processes: int) -> None:
        """Tell which line the log has reached, so that a process that fell silent is done with. Of very many
        ``processes`` each has a line only now and then.
        """
        if self.busy and number - self._seen > max(_SILENCE, 4 * processes):
            self.close()

    def close(self) -> None:
        """The log has ended: hand over what is there."""
        if self._state == self._message:
            self._finish()
        elif self._state == self._traceback and self._frames:
            self._hand_over("", "", None, truncated=True)
        elif self._state == self._report:
            self._told()
        self._go(self._idle)
        self._reset()

    def _go(self, state: Callable[[str], bool]) -> None:
        self._state = state
        self.busy = state != self._idle

    # -- nothing has begun ---------------------------------------------------------------------------------------

    def _idle(self, line: str) -> bool:
        if parse.TRACEBACK in line:
            self._begin(line)
            return True
        if parse.FORWARD in line:
            self._note(line)
            self._begin_forward(line)
            return True
        if own_reports.BEGINS.match(line):
            self._reset()
            self._start = self._seen
            self._go(self._report)
            return self._report(line)
        if line.startswith(_CHAINED) and self._last:
            self._chain = [*self._chain[-8:], self._last]
            return True
        raised = parse.raised_in(line)
        if raised and not raised[0].endswith("Warning"):
            if raised[1] and self._known(raised[1]):
                self._open(raised[0], raised[1])
        elif parse.warned_in(line):
            self._note(line)
        elif self._known(line, bare=True):
            self._open("", line)
        return True

    def _known(self, text: str, bare: bool = False) -> bool:
        """Whether it holds a known error; on a ``bare`` line, no exception's, the words have to be PyTorch's own."""
        matches = recognise(text[:_LONGEST_MESSAGE], squeezed=False)
        return any(m.kind == "error" and not (bare and (m.generic or m.listed)) for m in matches)

    def _note(self, line: str) -> None:
        """Keep a warning if it is a known one; each text is looked at once."""
        warned = parse.warned_in(line)
        text = warned[1] if warned else line
        if len(self._warnings) >= _MOST_WARNINGS or text in self._looked or len(self._looked) > 2000:
            return
        self._looked.add(text)
        matches = recognise(text, squeezed=False)
        if not matches:
            return
        self._warnings.append(clean(text).strip()[:1000])
        if matches[0].kind == "warning" and matches[0].family != "anomaly":
            category = warned[0] if warned else matches[0].exception
            place = parse.warned_at(line)
            failure = Failure(category, clean(text).strip()[:1000], matches[0], line=self._seen)
            if place is not None and self._state == self._idle:
                failure.frames, self._frames, self._code = [place], [place], failure.code
                self._go(self._below_warning)
            self._add(failure, self.label)

    def _below_warning(self, line: str) -> bool:
        """Python shows the line that warns."""
        shown = line.startswith("  ") and line.strip() != ""
        if shown:
            self._keep_code(line)
        self._go(self._idle)
        self._reset()
        return shown

    # -- a traceback ---------------------------------------------------------------------------------------------

    def _begin(self, line: str) -> None:
        self._reset()
        self._start = self._seen
        self._type = parse.headed_in(line)
        self._go(self._traceback)

    def _traceback(self, line: str) -> bool:
        if parse.TRACEBACK in line:
            if self._frames:
                self._hand_over("", "", None, truncated=True)
            self._begin(line)
            return True
        frame = parse.frame_in(line)
        if frame is not None:
            if len(self._frames) < _MOST_FRAMES:
                self._frames.append(frame)
            return True
        if line[:1] in (" ", "\t", "") or line.startswith(("^", "~", "---")):
            arrow = parse.arrow_in(line) if line.startswith("--") else None
            if arrow is not None:
                self._point(*arrow)
            elif self._frames and line.strip():
                self._keep_code(line)
            return True
        raised = parse.raised_in(line)
        if raised is not None:
            self._open(raised[0], raised[1])
            return True
        if parse.FORWARD in line:
            # Anomaly mode's warning, printed while the traceback was being written.
            self._note(line)
            return True
        self._noise += 1
        if self._noise > _NOISE:
            if self._frames:
                self._hand_over("", "", None, truncated=True)
            self._go(self._idle)
            self._reset()
        return True

    def _point(self, line: int, code: str) -> None:
        if self._frames and self._frames[-1].line in (0, line):
            self._frames[-1].line = line
            self._code.setdefault((self._frames[-1].file, line), code)

    def _keep_code(self, line: str) -> None:
        last = self._frames[-1]
        text = clean(line).strip()
        if last.line and not set(text) <= set("^~ "):
            self._code.setdefault((last.file, last.line), text[:500])

    # -- the message ---------------------------------------------------------------------------------------------

    def _open(self, kind: str, first: str) -> None:
        if self._state != self._traceback:
            self._reset()
            self._start = self._seen
        self._type = kind or self._type
        self._lines = [first]
        matches = _written(first)
        self._room = max((_LONG.get(m.family, 0) for m in matches), default=_FOLLOWING)
        if not matches or any(m.partial for m in matches):
            self._room = max(self._room, _FOLLOWING)
        self._go(self._message)
        if not self._room:
            self._finish()

    def _message(self, line: str) -> bool:
        blank = not line.strip()
        ended = parse.TRACEBACK in line or line.startswith(_CHAINED) or parse.FORWARD in line
        ended = ended or own_reports.BEGINS.match(line) is not None
        if ended or (blank and not self._lines[-1].strip()) or len(self._lines) > self._room:
            self._finish()
            return blank
        raised = parse.raised_in(line)
        if raised is not None and self._known(line):
            self._finish()
            return False
        self._lines.append(line)
        return True

    def _finish(self) -> None:
        text = "\n".join(self._lines)[:_LONGEST_MESSAGE]
        matches = _written(text)
        if self._squeezes > 0 and len(self._lines) > 1 and all(m.partial for m in matches):
            self._squeezes -= 1
            joined = "".join(self._lines)[:_LONGEST_MESSAGE]
            again = _written(joined)
            if any(not m.partial for m in again):  # a terminal broke the line at its edge
                text, matches = joined, again
            else:
                matches = _written(text, squeezed=True)
        end = len(self._lines[0])
        # Only the first line, or what a terminal made of it, can begin the message.
        first = next((m for m in matches if m.start <= max(end, 200)), None)
        match = None
        if first is not None:
            parts = [m for m in matches if m.family == first.family]
            end = max(end, *(m.end for m in parts))
            end = text.find("\n", end) if text.find("\n", end) >= 0 else len(text)
            match = strongest(parts, self._type)
            if not self._type:  # a logger's line: what stands before the message is not part of it
                text, end = text[first.start :], end - first.start
        if match is None and self._type:
            match = listed_of(self._type, text, [f.file for f in self._frames[-1 : -1 - _DEEPEST : -1] if not f.user])
            end = match.end if match else end
        self._hand_over(self._type or (match.exception if match else ""), text[:end], match)
        self._go(self._idle)

    def _hand_over(self, kind: str, message: str, match: Match | None, truncated: bool = False) -> None:
        failure = Failure(
            type=clean(kind),
            message=clean(message).strip(),
            match=match,
            frames=self._frames,
            forward=self._forward,
            forward_op=self._forward_op,
            warnings=list(self._warnings),
            code={**self._forward_code, **self._code},
            chain=self._chain,
            line=self._start,
            truncated=truncated,
        )
        self._last = f"{failure.type}: {failure.message}"[:500]
        self._forward, self._forward_op, self._forward_code, self._chain = [], "", {}, []
        self._reset()
        if failure.match is not None or failure.frames or failure.type:
            self._raised = self._add(failure, self.label)

    # -- graphdoc's own report -----------------------------------------------------------------------------------

    def _report(self, line: str) -> bool:
        if not own_reports.goes_on(self._lines, line):
            self._told()
            return False
        self._lines.append(line)
        return True

    def _told(self) -> None:
        """It belongs to the exception before it; where the log has none, it stands for itself."""
        text = clean(own_reports.as_shown(self._lines)).rstrip()
        about = own_reports.about(text)
        if self._raised is not None and not self._raised.report:
            self._raised.report = text
        elif about not in self._reports:
            self._add(Failure("", text.partition("\n")[0], line=self._start, report=text), self.label)
        self._reports.add(about)
        self._raised = None
        self._go(self._idle)
        self._reset()

    # -- anomaly mode's forward trace ----------------------------------------------------------------------------

    def _begin_forward(self, line: str) -> None:
        # The trace of the node whose backward made the failing one follows its own; the first one counts.
        self._inner = "induced" in line and bool(self._forward)
        if not self._inner:
            self._forward, self._forward_code = [], {}
            self._forward_op = clean(parse.detected_in(line))
        self._noise = 0
        self._go(self._forward_trace)

    def _forward_trace(self, line: str) -> bool:
        frame = parse.frame_in(line)
        if frame is not None:
            if not self._inner and len(self._forward) < _MOST_FRAMES:
                self._forward.append(frame)
            return True
        text = line.strip()
        if text.startswith(("(Triggered internally", "(function ")):
            self._go(self._idle)
            return True
        if not text or line[:1] in " \t":
            if self._forward and not self._inner and text and not set(text) <= set("^~ "):
                last = self._forward[-1]
                self._forward_code.setdefault((last.file, last.line), clean(text)[:500])
            self._noise += 1
            if self._noise <= _MOST_FRAMES:
                return True
        self._go(self._idle)
        return False


# What launchers and CI put in front of a program's line: time stamps, rank labels, container names, quote marks.

# A line of a log is cut here: what matters of a line stands at its beginning.
LONGEST_LINE = 20_000
# A line can carry several of them: a CI's time stamp, a container's name, a rank.
_MOST = 6

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?"
_STAMP = re.compile(rf"\[?{_TIME}\]?(?:[ \t]|$)|\[?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?\]?[ \t]")
_JOB = re.compile(rf"[^\t\n]{{1,200}}\t[^\t\n]{{1,200}}\t(?={_TIME})")  # gh run view --log: job, step, time
_MARK = re.compile(r"##\[\w{1,20}\]|(?:> ?){1,8}(?!>)|E {3,12}(?=\S)|\[stderr\] ?|<stderr>:? ?")
# Each of these names the process that wrote the line.
_LABEL = re.compile(
    r"\[(?:rank|default|worker|node|trainer)[ _-]?(?P<rank>\d{1,6})\]:? ?"
    r"|\[(?P<plain>\d{1,6})\]: ?"  # mpi, accelerate
    r"|\[\d{1,6},(?P<mpi>\d{1,6})\](?:<(?:stderr|stdout)>)?: ?"
    r"|\[Rank (?P<worded>\d{1,6})\]:? ?"
    r"|(?P<srun>\d{1,6}): (?=\S| {2})"
    r"|\((?P<actor>\w{0,80}(?: pid=\d{1,10})[^)\n]{0,160})\) ?"  # ray
    r"|\((?P<pid>pid=\d{1,10}[^)\n]{0,160})\) ?"
    r"|(?P<service>[A-Za-z][\w.-]{0,80}) {0,40}\| ?"  # docker compose
    r"|\[(?P<pod>pod/[^\]\n]{1,160})\] ?"
)
# Colours whose escape character was lost on the way.
_ORPHAN = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m")
_RANK = re.compile(r"(?:^| )rank (\d{1,6})$")


def peel(line: str) -> tuple[str, str, bool]:
    """A line of a log without its decoration: (label of the process, text, whether anything was taken off).

    The label is empty where none is written. Only the text may still hold control characters other than escapes.
    """
    line = line[:LONGEST_LINE]
    if "\x1b" in line:
        line = ESCAPES.sub("", line)
    if "\x00" in line:
        line = line.replace("\x00", "")
    if "m" in line and "[" in line:
        line = _ORPHAN.sub("", line)
    labels: list[str] = []
    start = line
    for _ in range(_MOST):
        first = line[:1]
        if not first or first == " " or first == "\t":
            break
        found = _STAMP.match(line) if first.isdigit() or first == "[" else None
        found = found or (_MARK.match(line) if first in "#>E[<" else None)
        if found is None:
            found = _LABEL.match(line)
            if found is None and "\t" in line:
                found = _JOB.match(line)
            elif found is not None:
                labels.append(_name(found))
        if found is None:
            break
        line = line[found.end() :]
    return " ".join(labels), line, line is not start


def rank_of(label: str) -> int:
    """The rank that a label ends with (``rank 3``), or -1: the number of a container or a process is no rank."""
    found = _RANK.search(label)
    return int(found.group(1)) if found else -1


def _name(found: re.Match[str]) -> str:
    kind, text = next((k, v) for k, v in found.groupdict().items() if v is not None)
    return text if kind in ("actor", "pid", "service", "pod") else f"rank {int(text)}"


# Failures in a job's log, read as a stream: several ranks, several failures, whatever CI has done to the lines.

_CHUNK = 1 << 20
# Where a log is not reporting a failure, lines are skipped until one holds a word of a failure.
_TRIGGER = re.compile(
    r"Traceback|(?:error|warning)(?:\[| title=| )GD|[a-z]Error\b|Exception\b|Warning: |\[W|Unsupported\b"
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
    if head is not None and not any(failure.report for failure in book.failures):
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

    def add(self, failure: Failure, label: str) -> Failure:
        """Keep it, or count it with the one that it repeats; returns which one it is."""
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
                return failure
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
        return known

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
