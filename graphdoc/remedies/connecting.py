"""What connects an output with the input whose gradient is asked for, or answers that there is no connection."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings, name_usage
from graphdoc.program.idle_argument import Idle
from graphdoc.program.observed import Program
from graphdoc.program.spans import place
from graphdoc.program.steps_between import step_between
from graphdoc.program.unreached_input import Beside, FlaggedLate, Reason, TakenOut
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.remedies.left_open import open_at_draw


def of_reason(sources: SourceTexts, frame: Frame | None, reason: Reason) -> tuple[Remedy, ...]:
    """Where the run has shown why no way leads to the input."""
    match reason:
        case Beside(made):
            if frame is None or frame.line != made.line:
                return ()
            note = "By the chain rule that is the derivative by those elements; no other gradient changes."
            return remedy_at(
                frame, "grad_of_whole", "Differentiate by the whole tensor, and take the part", "safe", note
            )
        case TakenOut(cut, at):
            if cut.reason not in ("detach", "conversion"):
                return ()
            note = "The output then depends on it, and so do the gradients of everything that it was computed from."
            found = remedy_at(at, "drop_call", f"Keep the graph: drop `{cut.op}`", "unsafe", note)
            return tuple(replace(r, open=open_at_draw(sources, at)) for r in found)
        case FlaggedLate(flagged, taken):
            note = "The output keeps its value, and has an edge to the input."
            title = "Let it require gradients before it goes into the output"
            return remedy_at(flagged, "move_statement", title, "safe", note, before=place(taken))


def connecting(program: Program, idle: Idle | None, cut: list[Frame]) -> tuple[Remedy, ...]:
    """Let the output depend on the input: on an argument that is not used, or on values that were written."""
    if not cut:
        return _pass_it_on(program.sources, idle) or _use_it(program, idle)
    note = "`torch.func.functional_call(module, values, inputs)` runs a module with values that have a graph."
    return (Remedy("use_values", "Compute the output from the new values themselves", "display", note),)


def zeros(frame: Frame | None, told: str) -> tuple[Remedy, ...]:
    """A derivative of zero; ``told`` is the input in words."""
    return remedy_at(
        frame,
        "set_keyword",
        "Ask for zeros where the output does not depend on an input",
        "unsafe",
        f"The derivative by {told} is zero then; had it been forgotten, that would be silenced.",
        name="materialize_grads",
        value="True",
    )


def _pass_it_on(sources: SourceTexts, idle: Idle | None) -> tuple[Remedy, ...]:
    """Give the idle argument to the keyword of the same name that a call in its function leaves at None."""
    if idle is None:
        return ()
    function, argument, place = idle
    for call in ast.walk(bindings.tree(sources, place.file) or ast.Module([], [])):
        if not isinstance(call, ast.Call) or not place.line <= call.lineno <= place.end_line:
            continue
        left = [k for k in call.keywords if k.arg == argument and isinstance(k.value, ast.Constant)]
        if left and left[0].value.value is None:  # type: ignore[attr-defined]
            return remedy_at(
                bindings.frame_of(sources, place.file, call, function),
                "set_keyword",
                f"Pass `{argument}` on instead of None",
                "unsafe",
                "What is passed to the function enters its result, and gradients reach it.",
                name=argument,
                value=argument,
            )
    return ()


def _use_it(program: Program, idle: Idle | None) -> tuple[Remedy, ...]:
    """Say which expression in the idle function stands where its argument belongs, if the source shows it."""
    if idle is None or step_between(program) is not None:
        return ()
    function, argument, place = idle
    again = name_usage.made_again(program.sources, place, argument)
    note = (
        f"`{again}` is computed there anew, and it is what a variable `{argument}` holds outside: write `{argument}` "
        "in its place."
        if again
        else f"What the caller passes as `{argument}` has to enter its result, which is made of other tensors now."
    )
    return (Remedy("use_argument", f"Compute the result of `{function}` from `{argument}`", "display", note),)
