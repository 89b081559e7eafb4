"""Which lines of a text become which: told of two texts by difflib, and read out of a unified diff."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

# difflib's answer, made definite where equal lines stand beside each other.

Opcode: TypeAlias = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class LineMatcher(difflib.SequenceMatcher[str]):
    """A matcher of lines. Of equal lines in a row the last is the one that goes, as ``git diff`` has it.

    A call that is written twice and taken out once could be either; difflib names the first, while a repetition is
    the later one.
    """

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._lines = before

    def get_opcodes(self) -> list[Opcode]:
        """As in the class above; ``get_grouped_opcodes`` builds on it."""
        lines = self._lines
        found: list[Opcode] = []
        codes: list[Opcode] = list(super().get_opcodes())
        for at, (tag, i1, i2, j1, j2) in enumerate(codes):
            if tag == "delete" and at + 1 < len(codes):
                _, _, end, _, end_after = codes[at + 1]  # what follows a deletion is equal
                by = 0
                while i2 + by < end and lines[i1 + by] == lines[i2 + by]:
                    by += 1
                if by:
                    _put(found, ("equal", i1, i1 + by, j1, j1 + by))
                    codes[at + 1] = ("equal", i2 + by, end, j2 + by, end_after)
                _put(found, (tag, i1 + by, i2 + by, j1 + by, j2 + by))
            elif tag != "equal" or i1 < i2:
                _put(found, (tag, i1, i2, j1, j2))
        return found


def _put(codes: list[Opcode], code: Opcode) -> None:
    """Appended; joined with the last one where both keep (or take out) lines."""
    if codes and codes[-1][0] == code[0]:
        tag, i1, _, j1, _ = codes.pop()
        code = (tag, i1, code[2], j1, code[4])
    codes.append(code)


# A unified diff taken apart, for display and for machine formats.

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_QUOTED = re.compile(r"\\([0-7]{3}|.)")
_QUOTED_AS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass
class Change:
    """Neighbouring lines that go and the lines that take their place.

    ``old_start`` and ``new_start`` count from 1; where nothing goes (or comes) they name the line before which the
    change takes place. ``before`` is the unchanged line above it where the diff shows it. Lines have no newline; the
    two flags are False where the last line of the file has none.
    """

    old_start: int
    new_start: int
    before: str | None
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    old_newline: bool = True
    new_newline: bool = True


@dataclass
class FileChange:
    """All changes of one file, in order."""

    path: str
    changes: list[Change] = field(default_factory=list)


def parse(diff: str) -> list[FileChange]:
    """The files that a unified diff touches. What is no part of a hunk is passed over; never raises."""
    files: list[FileChange] = []
    hunk: _Hunk | None = None
    old_path = ""
    for line in diff.split("\n"):
        if hunk is not None and (hunk.open or line.startswith("\\")):
            hunk.take(line)
        elif line.startswith("--- "):
            old_path = _path(line[4:])
        elif line.startswith("+++ "):
            new_path = _path(line[4:])
            files.append(FileChange(new_path if new_path != "/dev/null" else old_path))
            hunk = None
        elif files and (match := _HUNK.match(line)):
            hunk = _Hunk(files[-1], *(int(n) if n is not None else 1 for n in match.groups()))
    return [f for f in files if f.changes]


class _Hunk:
    """Reads the lines of one hunk and collects its changes."""

    def __init__(self, file: FileChange, old: int, old_count: int, new: int, new_count: int) -> None:
        self.file = file
        # "-5,0" names the line after which lines are added, every other start the first line itself
        self.old, self.new = old + (old_count == 0), new + (new_count == 0)
        self.old_left, self.new_left = old_count, new_count
        self.before: str | None = None
        self.change: Change | None = None
        self.last = ""

    @property
    def open(self) -> bool:
        return self.old_left > 0 or self.new_left > 0

    def take(self, line: str) -> None:
        kind, text = line[:1], line[1:]
        if kind == "\\":  # "\ No newline at end of file" speaks of the line above it
            self._no_newline()
        elif kind == "-":
            self._changing().old.append(text)
            self.old += 1
            self.old_left -= 1
        elif kind == "+":
            self._changing().new.append(text)
            self.new += 1
            self.new_left -= 1
        else:
            self.before, self.change = text, None
            self.old, self.new = self.old + 1, self.new + 1
            self.old_left, self.new_left = self.old_left - 1, self.new_left - 1
        if kind != "\\":
            self.last = kind

    def _changing(self) -> Change:
        if self.change is None:
            self.change = Change(self.old, self.new, self.before)
            self.file.changes.append(self.change)
        return self.change

    def _no_newline(self) -> None:
        if self.change is not None and self.last == "-":
            self.change.old_newline = False
        elif self.change is not None and self.last == "+":
            self.change.new_newline = False


def _path(header: str) -> str:
    """The path of a ``---``/``+++`` line without its ``a/`` or ``b/``, its time stamp and git's quoting."""
    name = header.rstrip("\r")
    if name.startswith('"') and name.rstrip().endswith('"'):
        raw = _QUOTED.sub(_unquote, name.rstrip()[1:-1])
        name = raw.encode("latin-1", "replace").decode("utf-8", "replace")
    else:
        name = name.split("\t")[0]
    return name[2:] if name[:2] in ("a/", "b/") else name


def _unquote(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8) & 0xFF) if len(text) == 3 else _QUOTED_AS.get(text, text)
