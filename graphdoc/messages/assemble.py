"""Puts the lines of one process together again: traceback, message over several lines, anomaly mode's forward trace."""

from __future__ import annotations

import re
from collections.abc import Callable

from graphdoc.evidence import Frame
from graphdoc.messages import traceback_lines as parse
from graphdoc.messages.failure import Failure
from graphdoc.messages.flat_text import clean
from graphdoc.messages.recognise import Match, listed_of, recognise, strongest

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

    def __init__(self, label: str, add: Callable[[Failure, str], None]) -> None:
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
        if "|" in line[:40]:
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
            self._add(Failure(category, clean(text).strip()[:1000], matches[0], line=self._seen), self.label)

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
            self._add(failure, self.label)

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
