"""The loop that a place of the source stands in."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from graphdoc.evidence import Frame
from graphdoc.source.module import Loop, Source
from graphdoc.source.places import Place


def loop_of(sources: Mapping[str, str], frame: Frame) -> Frame | None:
    """The innermost ``for`` or ``while`` of the same function around a place; None where it stands in none."""
    loop = node_loop_of(sources, frame)
    if loop is None:
        return None
    at = Source(frame.file, sources[frame.file]).place(loop)
    return Frame(at.file, at.line, at.column, at.end_line, at.end_column, frame.function)


def node_loop_of(sources: Mapping[str, str], frame: Frame) -> Loop | None:
    """The same as a syntax node."""
    text = sources.get(frame.file)
    source = Source(frame.file, text) if text is not None else None
    statement = source.node_statement(Place.of(frame)) if source is not None else None
    return source.node_loop(statement) if source is not None and statement is not None else None


def rounds_are_alike(sources: Mapping[str, str], loop: Frame) -> bool:
    """Whether a ``for`` goes through ``range`` and reads nothing of what it goes through: so many times the same."""
    text = sources.get(loop.file)
    source = Source(loop.file, text) if text is not None else None
    node = source.node_statement(Place.of(loop)) if source is not None else None
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name) or not isinstance(node.iter, ast.Call):
        return False
    name, called = node.target.id, node.iter.func
    inside = [n for s in node.body for n in ast.walk(s)]
    read = any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in inside)
    return isinstance(called, ast.Name) and called.id == "range" and not read


def within_a_loop(sources: Mapping[str, str], calls: Sequence[Frame], last: Frame) -> list[Frame]:
    """The loops of the functions that a chain of calls goes through, outermost first, down to the place ``last``."""
    found: list[Frame] = []
    for frame in calls:
        loop = loop_of(sources, frame)
        found += [loop] if loop is not None else []
        if frame is last:
            break
    return found
