"""Which parts of a folded graph become one box: by source line, and more coarsely where that is too many."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graphdoc.evidence import Part

MOST_OPERATIONS = 36
MOST_PARAMETERS = 12
"""Boxes of each kind: more than a reader can follow are folded again."""

LEVELS = 6
Key = tuple[object, ...]
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def group(parts: Sequence[Part], edges: Sequence[Sequence[int]] = ()) -> list[list[int]]:
    """The parts of each box, by index, in the order in which they are met.

    What lies behind something released or stale is kept apart from what the same line has made since; other iterations
    of one line are one box.
    """
    behind = _behind(parts, edges)
    made = [i for i, p in enumerate(parts) if not p.parameters]
    held = [i for i, p in enumerate(parts) if p.parameters]
    by_line = _finest(made, MOST_OPERATIONS, {i: _line_keys(parts[i], i in behind) for i in made})
    by_module = _finest(held, MOST_PARAMETERS, {i: _module_keys(parts[i]) for i in held})
    return sorted([*by_line, *by_module], key=min)


def _finest(members: Sequence[int], most: int, keys: Mapping[int, tuple[Key, ...]]) -> list[list[int]]:
    """The finest grouping with at most ``most`` groups; the coarsest there is where none has so few."""
    groups: dict[Key, list[int]] = {}
    for level in range(LEVELS):
        groups = {}
        for i in members:
            groups.setdefault(keys[i][level], []).append(i)
        if len(groups) <= most:
            break
    return list(groups.values())


def network(name: str) -> str:
    """What a reader calls the module of a parameter: without the numbers of a sequence, ``policy.net`` of
    ``policy.net.0.weight``."""
    module = name.rpartition(".")[0]
    return re.sub(r"(\.\d+)+$", "", module)


def _behind(parts: Sequence[Part], edges: Sequence[Sequence[int]]) -> set[int]:
    """The older parts that something released or stale leads to."""
    following: dict[int, list[int]] = {}
    for edge in edges:
        if len(edge) == 3:
            following.setdefault(edge[0], []).append(edge[1])
    todo = [i for i, p in enumerate(parts) if p.released or p.stale]
    seen = set(todo)
    while todo:
        for i in following.get(todo.pop(), ()):
            if i not in seen:
                seen.add(i)
                todo.append(i)
    return {i for i in seen if 0 <= i < len(parts) and parts[i].older}


def _line_keys(part: Part, behind: bool) -> tuple[Key, ...]:
    """From the lines that lead to it to its own line and its function; what is gone stays apart."""
    gone = ("stale" if part.stale else "released" if part.released else "live", behind)
    if not part.stack:
        return ((gone,),) * LEVELS
    lines = [(f.file, f.line) for f in part.stack]
    inner = part.stack[-1]
    return (
        (gone, *lines),
        (gone, *lines[-2:]),
        (gone, *lines[-1:]),
        (gone, inner.file, inner.function),
        (gone, inner.file),
        (gone,),
    )


def _module_keys(part: Part) -> tuple[Key, ...]:
    """From its module to that with numbers alike (``layers.*``) and fewer of its names; the optimizers always count."""
    module = part.parameters[0].rpartition(".")[0]
    names = _NUMBER.sub("*", module).split(".")
    return tuple((*told, "|", *part.owners) for told in ([module], names, names[:3], names[:2], names[:1], []))
