"""Places in a file, and the edits of what stands there, without syntax-tree nodes."""

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
class Spot:
    """A node by its offsets in a file, in characters and without a byte order mark.

    An expression by its span without grouping parentheses, a statement by where it starts, decorators left out.
    """

    start: int
    end: int
    statement: bool = False

    def holds(self, other: Spot) -> bool:
        """Whether another node lies within this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True)
class Written:
    """A template whose ``{name}`` stand for expressions: nodes of the same file, or texts."""

    template: str
    parts: tuple[tuple[str, Spot | Copied | str], ...] = ()


@dataclass(frozen=True)
class Copied:
    """A node of the same file as it is to stand elsewhere: as it is there, or with edits of its own.

    A statement comes with the comment on its last line. One that another edit takes out is moved: the comment above
    goes along where it is about nothing that stays.
    """

    at: Spot
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class Below:
    """A compound statement: a header (``for {name} in {group}:``) and what stands below it."""

    header: Written
    texts: tuple[Text, ...]


Text = str | Written | Copied | Below
"""What a statement is made of: a text without indentation (an empty one is a blank line), a template, a statement that
stands elsewhere, or a header with such texts below it."""


@dataclass(frozen=True)
class Filled:
    """A template in the place of an expression, which may be one of its parts."""

    written: Written


@dataclass(frozen=True)
class Named:
    """Another name in the place of a name, or behind the last dot of an attribute."""

    name: str


@dataclass(frozen=True)
class Members:
    """What goes of what a node lists, by its index in the source, and what comes behind the others.

    A call lists arguments, a tuple or list elements, a ``with`` items, a function parameters.
    """

    dropped: tuple[int, ...] = ()
    added: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decorators:
    """Decorators of a function or class, by their index, that go, and new ones below the others."""

    dropped: tuple[int, ...] = ()
    added: tuple[str, ...] = ()


@dataclass(frozen=True)
class Beside:
    """Statements before or behind a statement, in its block."""

    texts: tuple[Text, ...]
    after: bool


@dataclass(frozen=True)
class Instead:
    """Statements in the place of a statement; none removes it."""

    texts: tuple[Text, ...] = ()


@dataclass(frozen=True)
class Under:
    """A header (``with torch.no_grad():``) above a statement and those that follow it up to the last one."""

    header: str
    last: Spot


@dataclass(frozen=True)
class Opened:
    """The statements of one block of a compound statement in its place; ``body`` is the first of them."""

    body: Spot


Change = Filled | Named | Members | Decorators | Beside | Instead | Under | Opened


@dataclass(frozen=True)
class Edit:
    """One change of one node of a file (None: of a file without statements), see ``graphdoc.source.concrete``.

    ``once`` marks an edit that several fixes may ask for and that is made a single time (an import).
    """

    file: str
    at: Spot | None
    change: Change
    once: bool = False
