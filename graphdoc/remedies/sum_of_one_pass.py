"""A sum that a loop of one pass makes, and that an attribute keeps for the next pass: start it anew in each."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.loops import loop_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.source.module import Source
from graphdoc.source.paths import covers, key, targets_of
from graphdoc.source.places import Place
from graphdoc.story.older_graph import distinct_carries


def sum_started_anew(program: Program, reuse: Reuse) -> list[Remedy]:
    """Set the sum back before its loop, where nothing but the sum itself reads it in there.

    What the next round of the loop computes from it is a state, and goes on.
    """
    for c in distinct_carries(program.nodes, reuse.carries):
        producer = program.node(c.producer)
        frame = innermost_user(producer.stack) if producer is not None else None
        loop = loop_of(program.sources, frame) if frame is not None else None
        path = _summed_at(program.sources, frame, loop) if frame is not None and loop is not None else ""
        call = reuse.failing.stack if reuse.failing is not None else []
        if not path or loop is None or any(_within(f, loop) for f in call):
            continue
        return [
            Remedy(
                "reset_accumulator",
                f"start `{path}` anew in each pass, before the loop at {where(loop)}",
                "unsafe",
                "The sum holds the terms of one pass only; so far those of all passes before were in it, too.",
                {"place": place(loop), "name": path, "value": _zero_of(program.sources, loop, path)},
            )
        ]
    return []


def _summed_at(sources: SourceTexts, frame: Frame, loop: Frame) -> str:
    """The attribute that the statement at a place of a loop adds to, where it is a plain sum of that loop."""
    source = Source(frame.file, sources[frame.file])
    statement = source.node_statement(Place.of(frame))
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return ""
    function = function_around(tree(sources, frame.file) or ast.Module([], []), frame.line)
    if function is None or not isinstance(statement.target, ast.Attribute):
        return ""
    path = key(statement.target)
    read = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load)]
    inside = [n for n in read if key(n) == path and loop.line <= n.lineno <= loop.end_line]
    given = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and path in {key(t) for t in targets_of(n)}]
    return "" if inside or given or not covers(function, loop.line) else path


def _within(frame: Frame, loop: Frame) -> bool:
    """Whether a call was made in the loop."""
    same = (frame.file, frame.function) == (loop.file, loop.function)
    return same and loop.line <= frame.line <= loop.end_line


def _zero_of(sources: SourceTexts, loop: Frame, path: str) -> str:
    """A start value: of the sum's own shape where the file has torch at hand, which a buffer asks for."""
    root = tree(sources, loop.file)
    names = [a for n in ast.walk(root or ast.Module([], [])) if isinstance(n, ast.Import) for a in n.names]
    known = any(a.name == "torch" and a.asname in (None, "torch") for a in names)
    return f"torch.zeros_like({path})" if known else "0"
