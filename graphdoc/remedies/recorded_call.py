"""A call that computes a loss and differentiates it, under a switch that is its caller's: recorded for that call."""

from __future__ import annotations

import ast

from graphdoc.evidence import Cut, Frame, Raised, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import first_line, tree
from graphdoc.program.spans import where
from graphdoc.remedies.fix_places import remedy_at

_NOTE = "What this call computes has a graph then; what stands around it under the switch stays unrecorded."


def recorded_call(sources: SourceTexts, cut: Cut, raised: Raised | None, switch: Frame | None) -> tuple[Remedy, ...]:
    """``with torch.enable_grad():`` round the innermost call in which the cut and the failing backward both lie.

    An attack, a bound or a training loop inside an evaluation under ``no_grad``: the evaluation's switch is right, and
    this one call in it needs recording. Told where that call was made by the function that was switched off, or below
    it; a cut and a backward that stand in that function side by side are its own.
    """
    call = _common_call(sources, cut, raised, switch)
    if call is None or cut.grad_mode or cut.switch_kind == "inference_mode":
        return ()
    title = f"Record what the call at {where(call)} computes: `with torch.enable_grad():` around it"
    return remedy_at(call, "enable_grad_block", title, "unsafe", _NOTE)


def recorded_derivative(cut: Cut, raised: Raised | None) -> tuple[Remedy, ...]:
    """The same where an installed package has switched recording off, as a trainer does for an evaluation, and what
    fails is an ``autograd.grad`` of the user's: a derivative that is a part of the computation wherever it runs."""
    switch = cut.switch[-1] if cut.switch else None
    found: Frame | None = None
    below = False
    for one, other in zip(cut.stack, raised.stack if raised is not None else (), strict=False):
        if (one.file, one.function, one.line) != (other.file, other.function, other.line):
            break
        if switch is not None and (one.file, one.function) == (switch.file, switch.function):
            below = one.line > switch.line
        elif below and one.user:
            found = one
    if found is None or cut.grad_mode or cut.switch_kind == "inference_mode":
        return ()
    title = f"Record what the call at {where(found)} computes: `with torch.enable_grad():` around it"
    return remedy_at(found, "enable_grad_block", title, "unsafe", _NOTE)


def _common_call(sources: SourceTexts, cut: Cut, raised: Raised | None, switch: Frame | None) -> Frame | None:
    """The innermost call of the user's that leads to both, at or below the function with the switch."""
    lines = _function_of(sources, switch) if switch is not None else None
    if raised is None or switch is None or lines is None:
        return None
    found: Frame | None = None
    below = False
    for one, other in zip(cut.stack, raised.stack, strict=False):
        if (one.file, one.function, one.line) != (other.file, other.function, other.line):
            break
        below = below or (one.file == switch.file and lines[0] <= one.line <= lines[1] and one.line > switch.line)
        if below and one.user:
            found = one
    return found


def _function_of(sources: SourceTexts, switch: Frame) -> tuple[int, int] | None:
    """The first and the last line of the function that a switch stands in, or decorates."""
    root = tree(sources, switch.file)
    found: tuple[int, int] | None = None
    for node in ast.walk(root) if root is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = first_line(node)
            if first <= switch.line <= (node.end_lineno or first) and (found is None or first >= found[0]):
                found = first, node.end_lineno or first
    return found
