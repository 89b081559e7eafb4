"""What edges into an older graph mean: whether a loss learns through them, whether a value is old as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphdoc.evidence import PART_FRAMES, Folded, Frame, OlderEdge


def is_needed(
    fresh_reaches: list[str],
    earlier_edges: list[OlderEdge],
    carries: Sequence[OlderEdge],
    trained: frozenset[str] | None,
) -> bool:
    """Whether the failing loss reaches what it is meant to train by these edges alone: cutting them ends its learning.

    ``trained`` are the names of the parameters that it is to train. False also where they are not known, and for edges
    of an earlier loss.
    """
    if not trained or not carries or any(c in earlier_edges for c in carries):
        return False
    behind = {name for c in carries for name in c.behind}
    return bool(trained & behind) and not trained & set(fresh_reaches)


def takes_only_older(folded: Folded | None, node: int) -> bool:
    """Whether all that the expression takes which made a node of the failing graph was there before the latest backward
    call: it computes nothing from what this pass has made, and from no parameter itself. False where unknown."""
    home = folded.homes[node] if folded is not None and 0 <= node < len(folded.homes) else -1
    if folded is None or home < 0:
        return False
    taken = [folded.parts[to] for start, to, _ in folded.edges if start == home != to]
    return bool(taken) and all(part.older and not part.parameters for part in taken)


def reached_without_nodes(folded: Folded | None, nodes: Iterable[int]) -> set[str] | None:
    """The parameters that the failing loss still reaches where what made these nodes gives constants; None where the
    graph is folded too much to tell.
    """
    homes = folded.homes if folded is not None else []
    return _reached_without(folded, {homes[n] for n in nodes if 0 <= n < len(homes)} - {-1})


def reached_without_line(folded: Folded | None, line: Frame) -> set[str] | None:
    """The same where all that is computed in or below a line gives constants. None as well where it is not known of
    every part at which line of that function it was computed: a part tells the innermost of its frames.
    """
    parts = [(n, p) for n, p in enumerate(folded.parts) if not p.parameters] if folded is not None else []
    level = [(n, f) for n, p in parts for f in p.stack if (f.file, f.function) == (line.file, line.function)]
    if {n for n, _ in level} != {n for n, _ in parts}:
        return None
    return _reached_without(folded, {n for n, f in level if f.line == line.line})


def reached_without_values(folded: Folded | None, places: Sequence[Frame]) -> set[str] | None:
    """The same where all that is computed in or below these expressions gives constants; empty where that is the loss.
    None where of a part it is not known whether it was computed there.
    """
    cut: set[int] = set()
    for number, part in enumerate(folded.parts if folded is not None else ()):
        for at in places if not part.parameters else ():
            level = [f for f in part.stack if (f.file, f.function) == (at.file, at.function)]
            if part.lines or not at.column or (not level and len(part.stack) in (0, PART_FRAMES)):
                return None
            cut |= {number for f in level if _lies_in(f, at)}
    return set() if folded is not None and folded.root in cut else _reached_without(folded, cut)


def _lies_in(inner: Frame, outer: Frame) -> bool:
    first, last = (outer.line, outer.column), (outer.end_line, outer.end_column)
    return first <= (inner.line, inner.column) and (inner.end_line, inner.end_column) <= last


def is_all_of_loss(folded: Folded | None, line: Frame) -> bool:
    """Whether the failing loss is computed at this line from one value alone, which another line of the function has
    made: taken as a constant, the value leaves a loss without a graph. What the line itself calls, a network on its
    input, is no such value.
    """
    taken = _taken_at(folded, line)
    if folded is None or len(taken) != 1:
        return False
    root, (value,) = folded.parts[folded.root].stack[-1], taken
    made = [f.line for f in folded.parts[value].stack if (f.file, f.function) == (root.file, root.function)]
    return bool(made) and line.line not in made


def is_the_loss_itself(folded: Folded | None, carries: Sequence[OlderEdge]) -> bool:
    """Whether what these edges lead to is all that the line of the failing loss takes (``other = -loss``): then the
    older part is the loss, and not something beside it.
    """
    if folded is None or folded.root < 0 or not folded.parts[folded.root].stack:
        return False
    producers = {folded.homes[c.producer] for c in carries if 0 <= c.producer < len(folded.homes)}
    taken = _taken_at(folded, folded.parts[folded.root].stack[-1])
    return len(taken) == 1 and taken <= producers


def _taken_at(folded: Folded | None, line: Frame) -> set[int]:
    """The parts from elsewhere that a line takes which the failing loss is computed at; empty for another line."""
    if folded is None or folded.root < 0:
        return set()
    here = {n for n, p in enumerate(folded.parts) if p.stack and p.stack[-1].start[:2] == line.start[:2]}
    return {to for start, to, _ in folded.edges if start in here} - here if folded.root in here else set()


def _reached_without(folded: Folded | None, cut: set[int]) -> set[str] | None:
    if folded is None or folded.root < 0 or not cut or folded.root in cut:
        return None
    todo, seen = [folded.root], {folded.root}
    while todo:
        at = todo.pop()
        below = {to for start, to, _ in folded.edges if start == at} - cut - seen
        seen |= below
        todo += below
    return {name for n in seen for name in folded.parts[n].parameters}
