"""The inputs that a call of ``autograd.grad`` was asked for: what its output reaches, and whether a loop asks again."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program.bindings import call_at
from graphdoc.program.loops import node_loop_of
from graphdoc.program.observed import Program


@dataclass(frozen=True)
class OfAnother:
    """An input that the output does not depend on, beside inputs that it does: ``name`` belongs to ``other``'s output.

    ``reached`` are the names of the inputs of the same call that the output depends on.
    """

    name: str
    reached: tuple[str, ...]
    other: Event


def of_another_output(program: Program, index: int | None) -> OfAnother | None:
    """What is known of the input with this index in the failing call, where an earlier call's output depends on it.

    None where no earlier call is known to, where none of the other inputs is reached, or where names are missing.
    """
    asked = program.evidence.extras.get("asked")
    if not isinstance(asked, list) or index is None or not 0 <= index < len(asked) or not asked[index]:
        return None
    name = str(asked[index])
    reached = tuple(n for n in asked if n and n in program.evidence.reaches)
    if name in program.evidence.reaches or not reached:
        return None
    other = next((e for e in reversed(program.before_failure) if name in e.reaches), None)
    return OfAnother(name, reached, other) if other is not None else None


def asks_the_same(sources: SourceTexts, frame: Frame) -> bool:
    """Whether a call of ``autograd.grad`` asks for one and the same gradient in each round of the loop around it: of
    what it is given the loop binds nothing."""
    loop, call = node_loop_of(sources, frame), call_at(sources, frame)
    if loop is None or call is None:
        return False
    given = [*call.args, *(k.value for k in call.keywords)]
    read = {n.id for g in given for n in ast.walk(g) if isinstance(n, ast.Name)}
    bound = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return not read & bound
