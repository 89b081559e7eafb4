"""Telling parameters of an inner loss that no outer loss reaches: its gradient was taken without ``create_graph``."""

from __future__ import annotations

import ast

from graphdoc.evidence import Sign
from graphdoc.finding import Finding
from graphdoc.program import bindings
from graphdoc.program.inner_gradient import Entered, entered
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, innermost_user, short_code, span, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded


def inner_only(program: Program, sign: Sign) -> Finding | None:
    """The finding for an ``inner-only`` sign; None where the inner gradient does not enter the outer loss."""
    grad, outer = program.evidence.event(sign.event), program.evidence.event(sign.facts["outer"])
    frame = innermost_user(sign.stack)
    call = bindings.call_at(program.sources, frame)
    if frame is None or call is None or grad is None or outer is None or _is_chosen(call):
        return None
    if entered(program.sources, grad, outer, innermost_user(outer.stack)) is Entered.UNSEEN:
        return None
    whose = folded(sign.parameters)
    one = len(sign.parameters) == 1
    get, are, they = ("gets", "was", "it") if one else ("get", "were", "they")
    name = optimizer_of(program.optimizers, sign)
    code = short_code(program.sources, frame)
    return Finding(
        0.93,
        Proof.STEPS.confidence,
        f"`{code}` lacks `create_graph=True`: {whose} {get} no gradient from the outer loss",
        f"Only through this gradient {'does it' if one else 'do they'} enter the outer loss, and without "
        "`create_graph=True` the gradient has no graph.",
        distinct(
            (
                span("cause", frame, "this gradient has no graph", program.sources),
                *span_of("related", sign.other, f"the outer loss does not reach {whose}", program.sources),
            )
        ),
        because=f"in {sign.count} steps of {name} {whose} {are} in the graph of the inner loss, no backward "
        f"call reached {'it' if one else 'them'}, and {they} got no gradient",
    )


def _is_chosen(call: ast.Call) -> bool:
    """Whether the program decides on the order as it runs: ``create_graph=second_order``."""
    return any(k.arg in ("create_graph", None) and not isinstance(k.value, ast.Constant) for k in call.keywords)
