"""One buffer of which each of several losses takes a slice of its own: the buffer ties them, not what they use.

``values[i][t] = critic_i(x)`` for all ``i``, then a loss and a step for each ``values[i]``. Every write goes into the
one tensor, so the graph of each slice is that of all of them, and the other slices' part of it gets zeros.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Frame, Node, OlderEdge, SourceTexts
from graphdoc.program.spans import innermost_user
from graphdoc.source.module import Source
from graphdoc.source.paths import key, without_subscripts
from graphdoc.source.places import Place
from graphdoc.source.rows import counts, first_index


@dataclass(frozen=True)
class SlicedBuffer:
    """``path`` is the buffer in the function that reads it; ``read`` the slice there, ``write`` what fills a slice."""

    path: str
    read: Frame
    write: Frame


def sliced_buffer(sources: SourceTexts, nodes: Sequence[Node], carries: Sequence[OlderEdge]) -> SlicedBuffer | None:
    """The buffer through which all these edges go into the older part; None where they go through anything else.

    Each edge comes out of a slice assignment (``CopySlices``) and goes into a read of one slice, which a loop around
    the call that needs it picks by its own counter: the rounds of the loop take different slices.
    """
    by_id = {n.id: n for n in nodes}
    found = [_through(sources, by_id, c) for c in carries]
    first = found[0] if found else None
    return first if first is not None and all(b is not None and b.path == first.path for b in found) else None


def _through(sources: SourceTexts, nodes: Mapping[int, Node], carry: OlderEdge) -> SlicedBuffer | None:
    made, taken = nodes.get(carry.producer), nodes.get(carry.consumer)
    if made is None or taken is None or not made.op.endswith("CopySlices") or not taken.op.startswith("Select"):
        return None
    write, read = innermost_user(made.stack), innermost_user(taken.stack)
    if write is None or read is None:
        return None
    path = _read(sources, read)
    held = {h.path for h in carry.tensor.holders if h.exact and h.function == read.function}
    if path is None or path not in held or not _filled(sources, write, path):
        return None
    return SlicedBuffer(path, read, write)


def _read(sources: SourceTexts, frame: Frame) -> str | None:
    """``self.values`` of ``self.values[i]``, ``i`` being the counter of a loop around it."""
    source = Source(frame.file, sources.get(frame.file, ""))
    node = source.node_expression(Place.of(frame))
    first = first_index(node) if isinstance(node, ast.Subscript) else None
    if not isinstance(node, ast.Subscript) or not isinstance(first, ast.Name) or not counts(source, first):
        return None
    return key(without_subscripts(node))


def _filled(sources: SourceTexts, frame: Frame, path: str) -> bool:
    """Whether the statement puts a value into a part of one slice of the buffer, which a loop picks as well."""
    source = Source(frame.file, sources.get(frame.file, ""))
    statement = source.node_statement(Place.of(frame))
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Subscript) or key(without_subscripts(target)) != path:
        return False
    first = first_index(target)
    return isinstance(first, ast.Name) and counts(source, first)
