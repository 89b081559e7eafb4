"""A state that a generator carries from one of its rounds to the next: cut where it goes on, behind the yield."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import frame_of
from graphdoc.program.expression_values import value_at
from graphdoc.program.loops import node_loop_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.program.stored_values import user_frames
from graphdoc.remedies.lost_gradient import stops_there


def detach_behind_yield(program: Program, reuse: Reuse) -> list[Remedy]:
    """Detach the names that a generator binds anew in each round: its user has run backward when the round goes on."""
    paths: list[list[object]] = []
    behind: Frame | None = None
    for c in reuse.carries:
        found, producer = reuse.carrying(c), program.node(c.producer)
        if found is None or producer is None:
            return []
        at = _yield_of(program.sources, found[0])
        made = next((f for f in user_frames(producer.stack) if f.function == found[0].function), None)
        structure = value_at(program, producer.stack, made) if made is not None else None
        if at is None or not isinstance(structure, str) or (behind is not None and at != behind):
            return []
        behind = at
        if [found[1], structure] not in paths:
            paths.append([found[1], structure])
    if behind is None:
        return []
    shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
    return [
        Remedy(
            "detach_after",
            f"detach {shown} once each round, after the yield at {where(behind)}",
            "unsafe",
            stops_there(program.evidence.fresh_reaches, reuse),
            {"after": place(behind), "paths": paths},
        )
    ]


def _yield_of(sources: SourceTexts, frame: Frame) -> Frame | None:
    """The statement that hands out a value in the loop around a place, and in every round of it."""
    loop = node_loop_of(sources, frame)
    yielding = [
        s
        for s in (loop.body if loop is not None else ())
        if isinstance(s, ast.Expr | ast.Assign) and isinstance(s.value, ast.Yield)
    ]
    return frame_of(sources, frame.file, yielding[-1], frame.function) if yielding else None
