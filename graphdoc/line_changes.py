"""Which lines of a text became which: difflib's answer, made definite where equal lines stand beside each other."""

from __future__ import annotations

import difflib
from typing import Literal, TypeAlias

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
