"""A function that writes what has a graph into a tensor that it was given, and gives it back: its caller keeps both."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame
from graphdoc.program.in_place_writes import target_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, innermost_user
from graphdoc.program.stored_values import user_frames
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def written_into_given(program: Program, reuse: Reuse) -> list[Frame]:
    """The statements (``coord += shift`` of an argument) that made all of the carried values, each once; none where one
    was made otherwise, or where a caller drops what its function gives back: it wants the write alone."""
    found: dict[tuple[str, int, int], Frame] = {}
    for carry in reuse.carries:
        producer = program.node(carry.producer)
        frame = innermost_user(producer.stack) if producer is not None else None
        if producer is None or frame is None:
            return []
        target = target_of(program.sources, program.raised, frame)
        callers = [f for f in user_frames(producer.stack) if in_function([f], frame) is None]
        if not target.parameter or target.local or target.sliced or not target.whole or not callers:
            return []
        source = Source(callers[0].file, program.sources.get(callers[0].file, ""))
        if isinstance(source.node_statement(Place.of(callers[0])), ast.Expr | None):
            return []
        found.setdefault(frame.start, frame)
    return list(found.values())
