"""Telling an advantage that is differentiated: the policy's part of the loss moves the value that it starts from."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.spans import code_at, distinct, place, span, span_of
from graphdoc.story.wording import folded

MOST_CAUSES = 3
"""Places that a reader is sent to."""


def trained_baseline(sources: SourceTexts, sign: Sign) -> Finding | None:
    """The finding for a ``baseline-trained`` sign; None where no line of the user's made the product."""
    products = sorted((p for p in sign.facts["products"] if p["frame"]), key=lambda p: int(p["frame"][0]["line"]))
    factors = [_factor(sources, p) for p in products]
    if not factors:
        return None
    whose = folded(sign.parameters) or "the value network"
    known = [f for f in factors if f is not None]
    frames = known or [Frame(**p["frame"][0]) for p in products]
    code = code_at(sources, known[0]) if known else "a factor of the log-probability"
    named = f"`{code}`" if known else code
    label = "multiplies a log-probability, and still carries the graph of the value"
    calls = [Frame(**f) for f in sign.facts.get("backward", ())]
    return Finding(
        0.9,
        "likely",  # whom the loss trains is seen; what was meant as a constant is not
        f"{named} is not detached: the policy loss trains {whose} as well",
        "How much a policy learns from an action is a constant of its loss. Here that number still has the graph of "
        "the value it was computed from. So the policy loss trains this value too, against the loss that fits it.",
        distinct(
            (
                *(span("cause" if n < MOST_CAUSES else "related", f, label, sources) for n, f in enumerate(frames)),
                *span_of("related", sign.other, "fits the same value", sources),
                *(span("consumed", f, "both gradients are added up here", sources) for f in calls),
            )
        ),
        remedies=_remedies(sources, known, whose) if len(known) == len(factors) else (),
        because=f"the factor of the log-probability is a difference from the value that the same loss fits; in "
        f"{sign.count} of {sign.count} such calls both lead to {whose}",
    )


def _factor(sources: SourceTexts, product: dict[str, Any]) -> Frame | None:
    """The factor with the value's graph, as it is written in the product."""
    frame = Frame(**product["frame"][0])
    for node in ast.walk(bindings.tree(sources, frame.file) or ast.Module([], [])):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            at = bindings.frame_of(sources, frame.file, node, frame.function)
            if (at.line, at.column, at.end_line, at.end_column) == (
                frame.line,
                frame.column,
                frame.end_line or frame.line,
                frame.end_column,
            ):
                side = (node.left, node.right)[int(product["operand"])]
                return bindings.frame_of(sources, frame.file, side, frame.function)
    return None


def _remedies(sources: SourceTexts, factors: list[Frame], whose: str) -> tuple[Remedy, ...]:
    note = f"the loss of the log-probability sends no gradient into {whose}; what fits the value still does"
    args = [{"place": place(f)} for f in factors]
    code = code_at(sources, factors[0])
    if len(args) == 1:
        return (Remedy("detach_expression", f"detach `{code}`", "unsafe", note, args[0]),)
    edits = [{"kind": "detach_expression", "args": a} for a in args]
    return (Remedy("several", f"detach `{code}` in each product", "unsafe", note, {"edits": edits}),)
