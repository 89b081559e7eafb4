"""What source/ hands to the outside: places, expressions, statements and edits, never syntax-tree nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Place:
    """A span in a file. Lines and columns from 1 (columns in characters), ``end_column`` exclusive.

    ``column`` 0 means that only the line is known.
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    @classmethod
    def of(cls, value: object) -> Place:
        """From a dict, an evidence Frame, a model Span or a Place.

        Raises:
            ValueError: ``value`` names no file and line.
        """
        if isinstance(value, cls):
            return value

        def get(name: str) -> Any:
            return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)

        file, line = get("file"), get("line")
        if not isinstance(file, str) or not isinstance(line, int) or line < 1:
            raise ValueError(f"not a place: {value!r}")
        column, end_line, end_column = (int(get(n) or 0) for n in ("column", "end_line", "end_column"))
        return cls(file, line, column, end_line or line, end_column)

    @property
    def exact(self) -> bool:
        """Whether columns are known."""
        return self.column > 0 and self.end_column > 0


@dataclass(frozen=True)
class Expression:
    """An expression in the source: where, its text, and its kind as Python's grammar names it (``Call``, ``BinOp``)."""

    place: Place
    text: str
    kind: str


@dataclass(frozen=True)
class Statement:
    """A statement: where (decorators included), its text, its kind (``Assign``, ``For``) and its indentation."""

    place: Place
    text: str
    kind: str
    indent: str


@dataclass(frozen=True)
class Argument:
    """One argument of a call; ``keyword`` is None for a positional one."""

    value: Expression
    keyword: str | None = None


@dataclass(frozen=True)
class Call:
    """A call: the whole expression, what is called (``self.fc``) and its arguments in order."""

    expression: Expression
    function: Expression
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Edit:
    """Replace ``[start, end)`` of a file's text by ``text``; offsets in characters, without a byte order mark.

    ``once`` marks an edit that several fixes may ask for and that is made a single time (an import).
    """

    file: str
    start: int
    end: int
    text: str
    once: bool = False
