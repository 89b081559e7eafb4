"""Rounds of one step: a loop that calls backward in each of its rounds, and behind which the optimizer steps once."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.loops import node_loop_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.stored_values import user_frames
from graphdoc.source.module import Loop
from graphdoc.source.paths import covers


def of_one_step(program: Program, reuse: Reuse) -> bool:
    """Whether both calls are of one step, and the loop that makes them leaves off before it: nothing in it steps or
    clears a gradient.

    A loop that steps in some of its rounds goes on with what it carries behind the step as well.
    """
    if not reuse.same_line or not reuse.one_step or reuse.failing is None:
        return False
    if reuse.journal.zeroed_before(reuse.failing):
        return False
    if any(s.kind == "attribute" for c in reuse.carries for h in c.tensor.holders for s in h.steps):
        return False  # an object keeps it behind the loop as well
    frame, loop = _loop_around(program.sources, reuse)
    if frame is None or loop is None:
        return False
    ends = [e for e in program.evidence.events if e.kind in ("step", "zero_grad")]
    seen = any(_runs_in(frame, loop, f) for e in ends for f in e.stack)
    return not seen and not any(_ends_step(n) for n in ast.walk(loop))


def _loop_around(sources: SourceTexts, reuse: Reuse) -> tuple[Frame | None, Loop | None]:
    """The innermost loop that the failing call runs in, and the place in it."""
    for frame in user_frames(reuse.failing.stack) if reuse.failing is not None else ():
        loop = node_loop_of(sources, frame)
        if loop is not None:
            return frame, loop
    return None, None


def _runs_in(place: Frame, loop: Loop, frame: Frame) -> bool:
    return (frame.file, frame.function) == (place.file, place.function) and covers(loop, frame.line)


def _ends_step(node: ast.AST) -> bool:
    """Whether an expression calls a step, or sets gradients to zero, whatever it is called on."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "step" or "zero_grad" in name
