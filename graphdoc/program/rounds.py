"""Whether a value belongs to the very round that a call differentiates, or to each run of a line that uses it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Event, Frame, Node, SourceTexts
from graphdoc.source.module import Loop, Source
from graphdoc.source.places import Place


def of_this_round(sources: SourceTexts, nodes: list[Node], met: Node | None, failing: Event, made: Node) -> bool:
    """Whether a value was made in a loop behind which the call stands, since that call was last made, and is whole.

    A loss that is added up over the rounds of an inner loop, in which optimizers step: all of it is meant for the one
    call behind the loop. Nothing is carried there from one call of that line to its next. ``met`` is the node at which
    it failed.
    """
    if met is None or met.state != "stale" or made.iteration < 0:
        return False
    if made.iteration != max(n.iteration for n in nodes):
        return False
    if any(n.state == "released" and n.sequence <= met.sequence for n in nodes):
        return False  # an earlier call has walked a part of it
    level = _meeting([f for f in made.stack if f.user], [f for f in failing.stack if f.user])
    if level is None:
        return False
    source = Source(level[0].file, sources.get(level[0].file, ""))
    inner, outer = (_loops(source, f) for f in level)
    return len(inner) > len(outer) and all(any(o is i for i in inner) for o in outer)


def made_for_each(sources: SourceTexts, made: Sequence[Frame], used: Sequence[Frame]) -> bool:
    """Whether each run of a line has a value of its own: the value is made above the line, and no loop that the line
    runs in leaves out the making. ``made`` and ``used`` are stacks."""
    below = [f for f in used if f.user]
    level = _meeting([f for f in made if f.user], below)
    if level is None or level[0].start > level[1].start:
        return False
    inner = next(i for i, f in enumerate(below) if f is level[1])
    if any(_loops(Source(f.file, sources.get(f.file, "")), f) for f in below[inner + 1 :]):
        return False
    source = Source(level[0].file, sources.get(level[0].file, ""))
    around, repeated = (_loops(source, f) for f in level)
    return all(any(a is r for a in around) for r in repeated)


def _meeting(one: list[Frame], other: list[Frame]) -> tuple[Frame, Frame] | None:
    """The frames of the innermost function in which both are under way."""
    found: tuple[Frame, Frame] | None = None
    for a, b in zip(one, other, strict=False):
        if (a.file, a.function) != (b.file, b.function):
            break
        found = a, b
        if (a.line, a.column) != (b.line, b.column):
            break
    return found


def _loops(source: Source, frame: Frame) -> list[ast.AST]:
    """The loops of the function around a place, innermost first."""
    owner = source.node_statement(Place.of(frame))
    function = source.node_function(owner) if owner is not None else None
    above = [owner, *source.node_ancestors(owner)] if owner is not None else []
    if function is not None and function in above:
        above = above[: above.index(function)]
    return [a for a in above if isinstance(a, Loop)]
