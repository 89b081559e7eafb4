"""The loop that a place of the source stands in."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from graphdoc.evidence import Frame
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def loop_of(sources: Mapping[str, str], frame: Frame) -> Frame | None:
    """The innermost ``for`` or ``while`` of the same function around a place; None where it stands in none."""
    text = sources.get(frame.file)
    source = Source(frame.file, text) if text is not None else None
    statement = source.node_statement(Place.of(frame)) if source is not None else None
    loop = source.node_loop(statement) if source is not None and statement is not None else None
    if source is None or loop is None:
        return None
    at = source.place(loop)
    return Frame(at.file, at.line, at.column, at.end_line, at.end_column, frame.function)


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
