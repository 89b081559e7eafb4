"""How far a run of graphdoc's own has come, as its trace tells while it is written, and the seconds that are left."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from graphdoc.capture.trials.trace_end import AFTER, LEAST, PATIENCE

Announce = Callable[[str, object, float], None]
"""Told in one line what is run, what tells as ``str`` how far that has come, and the seconds that it may take."""

_RECORD = re.compile(
    rb'\{"k": "(?:backward|grad|step)", "n": \d+, "e": (?P<index>\d+)(?:, "o": (?P<optimizer>\d+))?'
    rb'|\{"k": "count", "steps": (?P<steps>\d+), "calls": \d+, "e": (?P<last>\d+)'
)
"""How the records begin that tell of a call or step (``graphdoc.capture.trials.trace``)."""


class Standing:
    """Where one run stands whose trace is written into ``folder``.

    ``steps`` are those of the optimizer that had made the most when the original failed, ``point`` is the journal index
    of that failure (-1: none is known), and ``seconds`` is how long the original took. A run that ``goes_on`` ends a
    while after that point, another one there. ``what`` is what it is for, where that is to be said.
    """

    def __init__(
        self, folder: Path, steps: int, point: int, seconds: float, what: str = "", goes_on: bool = True
    ) -> None:
        self._folder, self._of, self._point, self._seconds = folder, steps, point, seconds
        self._what, self._goes_on = what, goes_on
        self._began = time.monotonic()
        self._file: Path | None = None
        self._offset = 0
        self._steps: Counter[int] = Counter()
        self._index, self._first = -1, (0.0, -1)
        self._latest = self._passed = 0.0

    def __str__(self) -> str:
        """``step 12 of 31, about 4 s left of this run``; as much of that as is known."""
        self._read()
        now = time.monotonic()
        step = max(self._steps.values(), default=0)
        past = ", past the failure" if self._of and self._index > self._point >= 0 else ""
        of = f" of {self._of}" if step <= self._of and not past else past
        left = round(self._left(now))
        told = (self._what, f"step {step}{of}" if step else "", f"about {left} s left of this run" if left > 0 else "")
        return ", ".join(filter(None, told))

    def _read(self) -> None:
        """Take in the lines that have been written since the last look."""
        self._file = self._file or next(iter(sorted(self._folder.glob("trace-*.jsonl"))), None)
        try:
            lines = self._new_lines(self._file) if self._file is not None else []
        except OSError:
            return  # a run goes on without a word about its step
        for line in lines:
            if told := _RECORD.match(line):
                self._note(told)

    def _new_lines(self, file: Path) -> list[bytes]:
        with open(file, "rb") as stream:
            stream.seek(self._offset)
            whole = stream.read().rpartition(b"\n")[:2]
        self._offset += sum(map(len, whole))
        return whole[0].splitlines()

    def _note(self, told: re.Match[bytes]) -> None:
        self._index = int(told["index"] or told["last"])
        if told["optimizer"] is not None:
            self._steps[int(told["optimizer"])] += 1
        elif told["steps"] is not None:
            each = int(told["steps"]) // max(len(self._steps), 1)
            self._steps = Counter(dict.fromkeys(self._steps or [0], each))
        self._latest = now = time.monotonic()
        if self._first[1] < 0:
            self._first = now, self._index
        if self._index > self._point >= 0 and not self._passed:
            self._passed = now

    def _left(self, now: float) -> float:
        """Seconds until it has told enough (``trace_end.Ending``), at the pace of its calls and steps until now; before
        these, and where it runs to its end, by those that the original took. 0 where nothing tells."""
        began, first = self._first
        if self._point < 0 or self._index <= first or self._latest - began < 1.0:
            return self._seconds - (now - self._began)
        each, waited = (self._latest - began) / (self._index - first), now - self._latest
        before = max(self._point - self._index, 0) * each - waited  # a long step counts down as well
        if not self._goes_on:
            return before
        beyond = max(self._index - self._point, 0)
        since = now - self._passed if self._passed else 0.0
        ending = min((AFTER - beyond) * each, max((LEAST - beyond) * each, PATIENCE - since))
        return before + ending
