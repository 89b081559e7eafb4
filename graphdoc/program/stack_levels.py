"""Where several stacks part: the function in which a forward, a write and a backward call all stand."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import Frame


def level_of(forward: Sequence[Frame], write: Sequence[Frame], backward: Sequence[Frame]) -> tuple[Frame, ...] | None:
    """The frames of the innermost function that the three have in common, or None."""
    found: tuple[Frame, ...] | None = None
    for three in zip(*([f for f in s if f.user] for s in (forward, write, backward)), strict=False):
        if len({(f.file, f.function) for f in three}) > 1:
            break
        found = three
        if len({(f.line, f.column, f.end_line, f.end_column) for f in three}) > 1:
            break
    return found


def depth(forward: Sequence[Frame], write: Sequence[Frame], backward: Sequence[Frame]) -> int:
    """How many user frames stand above the function in which the three part."""
    level = level_of(forward, write, backward)
    users = [f for f in forward if f.user]
    return users.index(level[0]) if level is not None else 0


def shared_levels(forward: Sequence[Frame], write: Sequence[Frame]) -> int:
    """How many calls of the user's code a forward and a write have in common."""
    number = 0
    for one, other in zip(*([f for f in s if f.user] for s in (forward, write)), strict=False):
        if (one.function, one.extent) != (other.function, other.extent):
            break
        number += 1
    return number
