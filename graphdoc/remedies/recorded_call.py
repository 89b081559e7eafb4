"""A call that computes a loss and differentiates it, under a switch that is its caller's: recorded for that call."""

from __future__ import annotations

import ast

from graphdoc.evidence import Cut, Frame, Raised, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import first_line, tree
from graphdoc.program.spans import place, where
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
    return _recorded_at(call)


def recorded_derivative(cut: Cut, raised: Raised | None) -> tuple[Remedy, ...]:
    """The same where an installed package has switched recording off, as a trainer does for an evaluation, and what
    fails is an ``autograd.grad`` of the user's: a derivative that is a part of the computation wherever it runs.

    Where the package calls the very function that differentiates (a solver its right-hand side), its lines from the
    one that was not recorded to the derivative.
    """
    switch = cut.switch[-1] if cut.switch else None
    if cut.grad_mode or cut.switch_kind == "inference_mode":
        return ()
    found: Frame | None = None
    below = False
    for one, other in zip(cut.stack, raised.stack if raised is not None else (), strict=False):
        if (one.file, one.function, one.line) != (other.file, other.function, other.line):
            return _recorded_at(found) if found is not None else _recorded_lines(one, other) if below else ()
        if switch is not None and (one.file, one.function) == (switch.file, switch.function):
            below = one.line > switch.line
        elif below and one.user:
            found = one
    return _recorded_at(found) if found is not None else ()


def _recorded_at(call: Frame) -> tuple[Remedy, ...]:
    title = f"Record what the call at {where(call)} computes: `with torch.enable_grad():` around it"
    return remedy_at(call, "enable_grad_block", title, "unsafe", _NOTE)


def _recorded_lines(cut: Frame, derivative: Frame) -> tuple[Remedy, ...]:
    """From the statement that was not recorded to the one that differentiates, of one function."""
    if not cut.user or (cut.file, cut.function) != (derivative.file, derivative.function):
        return ()
    if not cut.line < derivative.line:
        return ()
    lines = f"{where(cut)} to {derivative.line}"
    title = f"Record what lines {lines} compute: `with torch.enable_grad():` around them"
    note = "The derivative has a graph wherever this function is called; what calls it stays unrecorded."
    return remedy_at(cut, "enable_grad_block", title, "unsafe", note, last=place(derivative))


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
    return found if found is None or not _all_of_the_block(sources, switch, found) else None


def _all_of_the_block(sources: SourceTexts, switch: Frame, call: Frame) -> bool:
    """Whether the statement with this call is all that stands under the switch: no other is to stay unrecorded."""
    root = tree(sources, switch.file) if call.file == switch.file else None
    return any(
        isinstance(node, ast.With)
        and node.lineno <= switch.line < node.body[0].lineno
        and len(node.body) == 1
        and not hasattr(node.body[0], "body")
        and node.body[0].lineno <= call.line <= (node.body[0].end_lineno or call.line)
        for node in (ast.walk(root) if root is not None else ())
    )


def _function_of(sources: SourceTexts, switch: Frame) -> tuple[int, int] | None:
    """The first and the last line of the function that a switch stands in, or decorates; of the file at its level."""
    root = tree(sources, switch.file)
    if root is None:
        return None
    found = 1, sources[switch.file].count("\n") + 1
    for node in ast.walk(root):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = first_line(node)
            if first <= switch.line <= (node.end_lineno or first) and first >= found[0]:
                found = first, node.end_lineno or first
    return found
