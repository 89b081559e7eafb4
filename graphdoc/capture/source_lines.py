"""Lines of a file as ``linecache`` has them, without an entry of ours in its cache: the program can see that."""

from __future__ import annotations

import linecache

MOST_FILES = 16
_read: dict[str, list[str]] = {}


def lines_of(file: str) -> list[str]:
    """The lines; none where the file cannot be read."""
    if file in linecache.cache:  # by the program, or a notebook's cell, which stands nowhere else
        return linecache.getlines(file)
    known = _read.get(file)
    if known is None:
        known = linecache.getlines(file)
        linecache.cache.pop(file, None)
        if known:
            if len(_read) >= MOST_FILES:
                del _read[next(iter(_read))]
            _read[file] = known
    return known


def line_of(file: str, line: int) -> str:
    """One line, counted from 1; empty where there is none."""
    lines = lines_of(file)
    return lines[line - 1] if 0 < line <= len(lines) else ""
