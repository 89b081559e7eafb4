"""Telling a group of parameters that was filled for an optimizer and never handed over."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Parameter, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.collected import Collected, never_given
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.in_no_optimizer import unused_gradients
from graphdoc.story.optimizers import opening, optimizer_of
from graphdoc.story.wording import folded


def never_handed(
    sources: SourceTexts, optimizers: list[Optimizer], parameters: list[Parameter], sign: Sign
) -> Finding | None:
    """The finding; None where no forgotten group explains that these parameters are in no optimizer."""
    loose = set(sign.parameters)
    others = [p.name for p in parameters if not p.buffer and p.name not in loose]
    found = never_given(sources, sign.parameters, others)
    if found is None:
        return None
    whose, name = folded(found.parameters), optimizer_of(optimizers, sign)
    return Finding(
        0.92,
        "likely",  # that nobody trains them is seen; that somebody should is not
        f"no optimizer holds {whose}: `{found.name}` collects them, and nothing reads it",
        f"{opening(name)} steps other parameters of the same loss. What is collected here is handed to nobody, so "
        "these keep their initial values.",
        distinct(
            (
                span("cause", found.filled, "collected here, and not used any more", sources),
                *span_of("related", sign.stack, f"gives gradients to {whose}", sources),
            )
        ),
        remedies=_remedies(found, name, whose),
        because=unused_gradients(sign, whose),
    )


def _remedies(found: Collected, name: str, whose: str) -> tuple[Remedy, ...]:
    if not found.handed or found.following is None:
        return ()
    args = {"place": place(found.following), "statement": found.handed, "before": True}
    note = f"{name} steps {whose} as well"
    return (Remedy("add_statement", f"hand over this group too: `{found.handed}`", "unsafe", note, args),)
