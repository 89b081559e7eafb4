"""Which statements a graph leads through: read off the nodes that they made, where the source shows names alone.

A name that goes into `reward = score(image)` need not bring its graph along: what comes back may have been through
NumPy, `.item()`, `detach()` or no_grad. Then no node between the loss and the older part was made there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphdoc.evidence import PART_FRAMES, PART_NAMES, Folded, Frame
from graphdoc.program.tensors import reached


def ways_to(folded: Folded | None, nodes: Iterable[int], level: Frame) -> list[tuple[int, int]] | None:
    """The lines (first, last) of a function at which the failing graph was made between its root and these nodes.

    ``level`` is any place of the function. None where the graph is folded too much to tell them.
    """
    if folded is None or folded.root < 0:
        return None
    ends = {folded.homes[n] for n in nodes if 0 <= n < len(folded.homes)} - {-1}
    found = above(folded, ends)
    if not ends or folded.root not in found | ends:
        return None
    lines: list[tuple[int, int]] = []
    for number in found:
        part = folded.parts[number]
        at = [f for f in part.stack if (f.file, f.function) == (level.file, level.function)]
        if part.lines or (not at and len(part.stack) in (0, PART_FRAMES)):
            return None  # the level that would tell is not among the frames that were kept
        lines += [(f.line, f.end_line or f.line) for f in at]
    return sorted(set(lines))


def above(folded: Folded, parts: set[int]) -> set[int]:
    """The other parts that lead to any of these, as backward goes."""
    leading: dict[int, set[int]] = {}
    for upper, lower, _ in folded.edges:
        leading.setdefault(lower, set()).add(upper)
    seen = set(parts)
    todo = list(parts)
    while todo:
        new = leading.get(todo.pop(), set()) - seen
        seen |= new
        todo += new
    return seen - parts


def lines_with(folded: Folded | None, names: set[str], level: Frame) -> list[tuple[int, int]] | None:
    """The lines (first, last) of a function below which the failing graph takes up any of these parameters.

    ``level`` is any place of the function. None where the graph is folded too much to tell them all.
    """
    if folded is None:
        return None
    leaves = {i for i, part in enumerate(folded.parts) if names & set(part.parameters)}
    if not leaves or not names <= {n for i in leaves for n in folded.parts[i].parameters}:
        return None
    lines: list[tuple[int, int]] = []
    for number in _taking(folded, leaves):
        part = folded.parts[number]
        at = [f for f in part.stack if (f.file, f.function) == (level.file, level.function)]
        if part.lines or not at:
            return None
        lines += [(f.line, f.end_line or f.line) for f in at]
    return sorted(set(lines))


def takes_up_anew(folded: Folded | None, names: set[str]) -> bool | None:
    """Whether what was computed since the latest backward call takes up any of these parameters; None where the graph
    is folded too much to tell."""
    if folded is None:
        return None
    leaves = {i for i, part in enumerate(folded.parts) if names & set(part.parameters)}
    if any(len(p.parameters) >= PART_NAMES for p in folded.parts):
        return None  # the rest of these are not named
    return any(not folded.parts[number].older for number in _taking(folded, leaves))


def _taking(folded: Folded, leaves: set[int]) -> set[int]:
    """The parts that take up one of these at once."""
    return {upper for upper, lower, _ in folded.edges if lower in leaves} - leaves


def without_graph(extras: dict[str, Any], function: str) -> set[str]:
    """The tensors without a graph that a function held under names of its own when the program failed."""
    return {t.path for t in reached(extras) if t.function == function and not t.requires_grad}


def with_graph(extras: dict[str, Any], function: str) -> set[str]:
    """The tensors with a graph behind them that a function held under names of its own when the program failed."""
    return {t.path for t in reached(extras) if t.function == function and t.requires_grad and not t.is_leaf}
