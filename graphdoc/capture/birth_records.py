"""What is remembered of one operation whose result was not finite."""

from __future__ import annotations

from typing import Any


class Record:
    """Where a value stopped being finite. ``kind``: birth, turn, given (no operation made it), received (of another
    process), constant or empty."""

    __slots__ = ("facts", "func", "kind", "made", "node", "number", "parents", "raw", "shows", "spared", "step")

    def __init__(self, number: int, kind: str, func: str, raw: Any, shows: str) -> None:
        self.number, self.kind, self.func, self.raw, self.shows = number, kind, func, raw, shows
        self.parents: list[Record] = []
        self.node = ""
        self.made: Any = None
        self.step = False
        self.facts: dict[str, Any] = {}
        self.spared: set[tuple[int, int]] = set()
        """Choices that left out none of the bad elements: the stack of each and its input."""
