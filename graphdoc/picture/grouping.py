"""Which parts of a folded graph become one box: by source line, and more coarsely where that is too many."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from graphdoc.evidence import Part

MOST_OPERATIONS = 36
MOST_PARAMETERS = 12
"""Boxes of each kind: more than a reader can follow are folded again."""

LEVELS = 6
Key = tuple[object, ...]
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def group(parts: Sequence[Part]) -> list[list[int]]:
    """The parts of each box, by index, in the order in which they are met."""
    made = [i for i, p in enumerate(parts) if not p.parameters]
    held = [i for i, p in enumerate(parts) if p.parameters]
    by_line = _finest(parts, made, MOST_OPERATIONS, _line_keys)
    by_module = _finest(parts, held, MOST_PARAMETERS, _module_keys)
    return sorted([*by_line, *by_module], key=min)


def _finest(
    parts: Sequence[Part], members: Sequence[int], most: int, keys: Callable[[Part], tuple[Key, ...]]
) -> list[list[int]]:
    """The finest grouping with at most ``most`` groups; the coarsest there is where none has so few."""
    told = {i: keys(parts[i]) for i in members}
    groups: dict[Key, list[int]] = {}
    for level in range(LEVELS):
        groups = {}
        for i in members:
            groups.setdefault(told[i][level], []).append(i)
        if len(groups) <= most:
            break
    return list(groups.values())


def _line_keys(part: Part) -> tuple[Key, ...]:
    """From the lines that lead to it to its own line, its function and its file; what is gone stays apart."""
    gone = "stale" if part.stale else "released" if part.released else "live"
    if not part.stack:
        return ((part.older, gone),) * LEVELS
    lines = [(f.file, f.line) for f in part.stack]
    inner = part.stack[-1]
    return (
        (part.older, gone, *lines),
        (part.older, gone, *lines[-2:]),
        (part.older, gone, *lines[-1:]),
        (gone, *lines[-1:]),
        (gone, inner.file, inner.function),
        (gone,),
    )


def _module_keys(part: Part) -> tuple[Key, ...]:
    """From its module to that with numbers alike (``layers.*``) and fewer of its names; the optimizers always count."""
    module = part.parameters[0].rpartition(".")[0]
    names = _NUMBER.sub("*", module).split(".")
    return tuple((*told, "|", *part.owners) for told in ([module], names, names[:3], names[:2], names[:1], []))
