"""A value that each round was to begin with, and that goes on from the one before: its start belongs into the loop."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import frame_of, function_around, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.loops import loop_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.remedies.lost_gradient import through_it_alone
from graphdoc.source.paths import targets_of


def begun_anew(program: Program, reuse: Reuse, call: Frame, paths: list[str]) -> list[Remedy]:
    """Start plain names anew in each round of the loop around a backward call.

    Proposed where a cut would leave the loss nothing to train: weights that are adapted to a task, starting from those
    of the model, are what this one trains the model through.

    Args:
        call: the frame of the backward call in the function that has the loop.
        paths: the names that carry the values on there.
    """
    loop = loop_of(program.sources, call)
    recurs = reuse.lifetime is Lifetime.RECURS
    if loop is None or not recurs or not through_it_alone(program.evidence.fresh_reaches, reuse):
        return []
    starts = [s for path in paths if path.isidentifier() and (s := _start(program.sources, loop, path)) is not None]
    if len(starts) < len(paths):
        return []
    shown = ", ".join(f"`{p}`" for p in paths[:4])
    lines = " and ".join(dict.fromkeys(where(s) for s in starts))
    return [
        Remedy(
            "move_into_loop",
            f"start {shown} anew in each round: move {lines} into the loop",
            "unsafe",
            "Each round begins with what is made there; so far it went on with what the round before had made of it.",
            {"places": [place(s) for s in starts], "anew": True, "loop": place(call)},
        )
    ]


def _start(sources: SourceTexts, loop: Frame, name: str) -> Frame | None:
    """The last statement before a loop, in its function, that gives the name its value."""
    root = tree(sources, loop.file)
    scope: ast.AST | None = (function_around(root, loop.line) or root) if root is not None else None
    before = [s for s in statements(scope) if s.lineno < loop.line] if scope is not None else []
    found = [s for s in before if isinstance(s, ast.Assign) and name in {ast.unparse(t) for t in targets_of(s)}]
    return frame_of(sources, loop.file, found[-1], loop.function) if found else None
