"""A weight for one number, where the program makes it with a dimension: made without one where it is made."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.fixes.conversions import MAKERS, SIZED
from graphdoc.program import bindings
from graphdoc.program.spans import where
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.source.paths import last_word

_DEEPEST = 4
"""Names and operators from the weights back to the one call that makes them."""


def maker(sources: SourceTexts, frame: Frame | None, given: ast.expr | None) -> tuple[Frame, ast.Call] | None:
    """The one call that makes all weights, found through names, signs and moves to a device."""
    made = _makers(sources, frame, given, 0) if frame is not None and given is not None else []
    calls = {f.extent: (f, call) for f, call in made if call is not None}
    return next(iter(calls.values())) if len(calls) == 1 and all(call is not None for _, call in made) else None


def as_number(made: tuple[Frame, ast.Call] | None) -> tuple[Remedy, ...]:
    """The weights made without a dimension where they are made with one."""
    if made is None:
        return ()
    at, call = made
    note = "The number stays; it has no dimension, as what it weighs. What else reads the tensor of "
    note += f"`{bindings.text_of(call)}` gets a number, too."
    return remedy_at(at, "number_for_one", f"Make it a number without a dimension, at {where(at)}", "unsafe", note)


def _makers(sources: SourceTexts, frame: Frame, value: ast.expr, depth: int) -> list[tuple[Frame, ast.Call | None]]:
    """The calls that an expression of one tensor goes back to; None for what is no such call."""
    unknown: list[tuple[Frame, ast.Call | None]] = [(frame, None)]
    if depth > _DEEPEST:
        return unknown
    if isinstance(value, ast.Name | ast.Attribute):
        name = bindings.text_of(value)
        bound = bindings.assignments(sources, frame, name)
        # ``w = w.cuda()`` makes nothing new.
        fresh = [(f, v) for f, v in bound if not any(bindings.text_of(n) == name for n in ast.walk(v))]
        return [m for f, v in fresh for m in _makers(sources, f, v, depth + 1)] or unknown
    if isinstance(value, ast.UnaryOp):
        return _makers(sources, frame, value.operand, depth + 1)
    if isinstance(value, ast.BinOp):
        sides = [s for s in (value.left, value.right) if _number(s) is None]
        return _makers(sources, frame, sides[0], depth + 1) if len(sides) == 1 else unknown
    if not isinstance(value, ast.Call):
        return unknown
    if last_word(value.func) in MAKERS | SIZED:
        return [(bindings.frame_of(sources, frame.file, value, frame.function), value)]
    inner = value.func.value if isinstance(value.func, ast.Attribute) else None
    moved = last_word(value.func) in ("to", "cuda", "cpu", "float", "double", "type")
    return _makers(sources, frame, inner, depth + 1) if moved and inner is not None else unknown


def _number(value: ast.expr) -> float | None:
    """The number that an expression is written as, with its sign."""
    try:
        number = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return None
    return float(number) if isinstance(number, int | float) else None
