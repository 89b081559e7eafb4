"""Which line of the original a line of the patched text is."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping

from graphdoc.line_changes import LineMatcher
from graphdoc.verify.traces import Call, Line, Trace


def back_to_original(trace: Trace, old: Mapping[str, str], new: Mapping[str, str], cwd: str) -> None:
    """Give every call of a patched run's trace the place that its line had in the original. Files by absolute path."""
    back = original_line(old, new, cwd)
    for entry in trace.order:
        if isinstance(entry, Call):
            entry.place = back(entry.place)
            entry.shares = frozenset(back(place) for place in entry.shares)


def original_line(old: Mapping[str, str], new: Mapping[str, str], cwd: str) -> Callable[[Line], Line]:
    """A function that tells for a line of the patched text which line of the original it is; a new one is negative."""
    tables = {path: _table(old[path], text) for path, text in new.items() if path in old}

    def back(place: Line) -> Line:
        table = tables.get(os.path.realpath(os.path.join(cwd, place[0])))
        return (place[0], table.get(place[1], -place[1])) if table is not None else place

    return back


def _table(old: str, new: str) -> dict[int, int]:
    """Patched line to original line. A line that is new altogether has none (its number is told negative)."""
    found: dict[int, int] = {}
    matcher = LineMatcher(old.splitlines(), new.splitlines())
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            found.update((j + 1, i1 + (j - j1) + 1) for j in range(j1, j2))
        elif tag == "replace":
            before, after = old.splitlines()[i1:i2], new.splitlines()[j1:j2]
            for j, text in enumerate(after):
                i = _likest(text, before)
                if i is not None:
                    found[j1 + j + 1] = i1 + i + 1
    return found


def _likest(text: str, among: list[str]) -> int | None:
    """The line of a changed block that this one was made from, if one is like it."""
    ratios = [difflib.SequenceMatcher(None, text.strip(), other.strip()).ratio() for other in among]
    best = max(range(len(among)), key=ratios.__getitem__)
    return best if ratios[best] >= 0.5 else None
