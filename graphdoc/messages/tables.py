"""Tables of texts beside the patterns: one row a line, with tabs between its columns."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def rows(name: str, columns: int) -> list[list[str]]:
    """Every row of a table, with empty texts in the place of columns that are left out at its end."""
    text = resources.files("graphdoc.messages").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    found = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return [[*row, *[""] * (columns - len(row))] for row in found]
