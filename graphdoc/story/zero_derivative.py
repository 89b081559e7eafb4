"""Telling an operation whose derivative is zero everywhere, in a run that went on: no gradient passes."""

from __future__ import annotations

from graphdoc.evidence import Frame, Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.bad_numbers import frame_of
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, distinct, innermost_user, place, span, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded

MOSTLY = 0.75
"""Of a gradient, the part that is zero from which on that is told."""
_ROUNDS = ("RoundBackward0", "RoundBackward1", "FloorBackward0", "CeilBackward0", "TruncBackward0")


def zero_derivative(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding:
    """The finding for a ``zero-derivative`` or ``scale-alone`` sign."""
    whose = folded(sign.parameters) or f"the parameters of {optimizer_of(optimizers, sign)}"
    code = code_at(sources, innermost_user(sign.stack))
    spans = (
        *span_of("cause", sign.stack, "its derivative is zero everywhere: no gradient passes", sources),
        *span_of("related", sign.other, f"sends zeros to {whose}", sources),
    )
    scale, single = frame_of(sign.facts.get("scale")), sign.facts.get("single")
    if scale is not None:
        return _scale_alone(sources, sign, code, whose, scale)
    why = (
        "Rounding and signs are flat between their jumps, so PyTorch defines their derivative as zero. The graph goes "
        "on through them, which is why nothing fails. A straight-through estimator sends the gradient past them: "
        "`x + (torch.round(x) - x).detach()`."
    )
    if single is not None:
        why = (
            f"Dimension {single} has size 1: a softmax over it is 1 for every input, so its derivative is zero. Take "
            "it over the dimension that is to be weighed, or use a sigmoid for a single gate."
        )
        spans = (
            span_of("cause", sign.stack, f"dimension {single} has size 1: constant for every input", sources)
            + spans[1:]
        )
    return Finding(
        0.93,
        Proof.STEPS.confidence,
        f"`{code}` stops every gradient: {whose} only receive zeros",
        why,
        distinct(spans),
        remedies=_straight_through(sign, code, whose),
        because=f"every way from the loss to {whose} leads through it, and in {sign.count} steps their gradients were "
        "exactly zero",
    )


def _scale_alone(sources: SourceTexts, sign: Sign, code: str, whose: str, scale: Frame) -> Finding:
    """Of each element the rounding lets nothing pass; what arrives is the gradient of a scale."""
    zeros = float(sign.facts.get("zeros", 0.0))
    share = f"; at least {100 * zeros:.0f} % of each gradient were exactly zero" if zeros >= MOSTLY else ""
    spans = (
        *span_of("cause", sign.stack, "its derivative is zero everywhere: no gradient passes", sources),
        span("related", scale, "all that reaches them comes through this", sources),
        *span_of("related", sign.other, f"sends the gradient of the scale to {whose}", sources),
    )
    return Finding(
        0.93,
        Proof.NODE.where(zeros >= MOSTLY),
        f"`{code}` stops the gradient of each element of {whose}",
        "Rounding and signs are flat between their jumps, so PyTorch defines their derivative as zero. A value that "
        "is scaled by a number made of itself still gets the gradient of that number. A straight-through estimator "
        "sends the gradient past the rounding: `x + (torch.round(x) - x).detach()`.",
        distinct(spans),
        remedies=_straight_through(sign, code, whose),
        because=f"every way from an element to the loss leads through it, except through `{code_at(sources, scale)}`"
        + share,
    )


def _straight_through(sign: Sign, code: str, whose: str) -> tuple[Remedy, ...]:
    if sign.facts.get("op") not in _ROUNDS and sign.kind != "scale-alone":
        return ()
    note = f"{whose} receive the gradient as if `{code}` had changed nothing"
    at = innermost_user(sign.stack)
    args = {"place": place(at)} if at is not None else {}
    return (Remedy("straight_through", "send the gradient straight through it", "unsafe", note, args),) if at else ()
