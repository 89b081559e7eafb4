"""A failure where nothing is recorded, by a block or within a Function's backward: told, and the latter recorded."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame
from graphdoc.finding import Finding
from graphdoc.program import bindings
from graphdoc.program.custom_functions import runs_backward
from graphdoc.program.mode_under_way import mode_under_way
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, place, span, where
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.story.missing_graph import recording_was_on, without_graph


def told_under_way(program: Program) -> Finding | None:
    """The block, for a loss without a graph; None where none is under way, or where a cut was seen."""
    if not without_graph(program.raised) or program.cuts:
        return None
    within = _in_backward(program)
    if within is not None:
        return _told_in_backward(program, within)
    found = mode_under_way(program.sources, program.evidence.extras, program.raised)
    if found is None:
        return None
    mode, at = found
    ends = "`torch.inference_mode(False)`" if mode == "inference_mode" else "`torch.enable_grad()`"
    return Finding(
        0.7,
        "likely",
        f"the loss is computed within a block of `{mode}`, which keeps its graph from being recorded",
        f"The block that {where(at)} enters is still under way where this fails. Nothing that runs in it is recorded, "
        f"unless {ends} is entered further in. Run this part outside of the block, or leave the derivative out there.",
        (
            span("cause", at, f"`{mode}` is switched on here, and on still when this fails", program.sources),
            *program.raised_span("the loss that arrives here has no graph"),
        ),
        because=f"{where(at)} has switched `{mode}` on, and the failing line runs within that block",
    )


def _in_backward(program: Program) -> Frame | None:
    """The user's line in a Function's backward that the failing call was made from, where recording is off in it."""
    stack = program.raised.stack if program.raised is not None else []
    runs = [i for i, f in enumerate(stack) if runs_backward(f)]
    if not runs or recording_was_on(program.evidence.extras):
        return None
    return next((f for f in stack[runs[-1] + 1 :] if f.user), None)


def _told_in_backward(program: Program, line: Frame) -> Finding:
    """What a backward computes has no graph: the engine runs it with the grad mode of ``create_graph``
    (torch/csrc/autograd/engine.cpp)."""
    sources, name = program.sources, line.function.rsplit(".", 1)[0].rsplit(".", 1)[-1]
    call = bindings.call_at(sources, line)
    output = bindings.argument(call, 0, "outputs")
    made = bindings.assignments(sources, line, output.id) if isinstance(output, ast.Name) else []
    near = [f for f, _ in made if f.line < line.line][-1:]
    to = f" to {line.line}" if near else ""
    first = near[0] if near else line
    return Finding(
        0.97,
        Proof.GRAPH_END.where(bool(near)),
        f"`{name}.backward` differentiates what it computes, and nothing is recorded in a backward",
        f"Autograd runs the backward of a Function with recording off, unless `create_graph` is set, so that what "
        f"`{name}.backward` computes has no graph. Compute what is differentiated under `torch.enable_grad()`.",
        distinct(
            (
                *(span("cause", f, "computed here without being recorded", sources) for f in near),
                *program.raised_span("what is differentiated here has no graph"),
            )
        ),
        (),
        remedy_at(
            first,
            "enable_grad_block",
            f"Record what {'lines' if near else 'line'} {where(first)}{to} compute{'' if near else 's'}: "
            f"`with torch.enable_grad():` around {'them' if near else 'it'}",
            "safe",
            "What backward differentiates has a graph then; the gradients that it returns are unrecorded, as before.",
            last=place(line),
        ),
    )
