"""The loop that a place of the source stands in."""

from __future__ import annotations

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
