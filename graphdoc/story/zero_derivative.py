"""Telling an operation whose derivative is zero everywhere, in a run that went on: no gradient passes."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, distinct, innermost_user, span_of
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded


def zero_derivative(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding:
    """The finding for a ``zero-derivative`` sign."""
    whose = folded(sign.parameters) or f"the parameters of {optimizer_of(optimizers, sign)}"
    code = code_at(sources, innermost_user(sign.stack))
    spans = (
        *span_of("cause", sign.stack, "its derivative is zero everywhere: no gradient passes", sources),
        *span_of("related", sign.other, f"sends zeros to {whose}", sources),
    )
    return Finding(
        0.93,
        Proof.STEPS.confidence,
        f"`{code}` stops every gradient: {whose} only receive zeros",
        "Rounding and signs are flat between their jumps, so PyTorch defines their derivative as zero. The graph goes "
        "on through them, which is why nothing fails. A straight-through estimator sends the gradient past them: "
        "`x + (torch.round(x) - x).detach()`.",
        distinct(spans),
        because=f"every way from the loss to {whose} leads through it, and in {sign.count} steps their gradients were "
        "exactly zero",
    )
