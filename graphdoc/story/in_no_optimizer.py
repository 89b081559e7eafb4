"""Telling parameters that get gradients and are in no optimizer, where nothing else says that they should be."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.optimizer_places import made
from graphdoc.program.signs import name_of
from graphdoc.program.spans import distinct, span, span_of
from graphdoc.story.optimizers import opening, optimizer_of
from graphdoc.story.wording import folded


def in_no_optimizer(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding:
    """A weak finding: a network may be left as it is on purpose, and the run cannot tell."""
    name, whose = optimizer_of(optimizers, sign), folded(sign.parameters)
    return Finding(
        0.4,
        "possible",  # so is every network that is left alone on purpose
        f"no optimizer holds {whose}, which get gradients",
        f"{opening(name)} steps other parameters of the same loss. If these are meant to learn, give them to it; if "
        "not, `requires_grad_(False)` says so and saves their gradients.",
        ungiven_places(sources, optimizers, sign, whose),
        because=unused_gradients(sign, whose),
    )


def weak_signs(signs: list[Sign]) -> tuple[str, ...]:
    """One line on what is no finding by itself, for a run of which nothing else is told: its silence would say that
    nothing is wrong."""
    unheld = next((s for s in signs if s.kind == "suspect-ungiven" and s.parameters), None)
    if unheld is None:
        return ()
    told = f"{folded(unheld.parameters)} get gradients that no optimizer uses"
    return (f"{told}. If they are meant to learn, `graphdoc run --audit all` tells more.",)


def ungiven_places(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign, whose: str) -> tuple[Span, ...]:
    """Where the optimizer is made without them, if that is known, and what gives them gradients."""
    name = optimizer_of(optimizers, sign)
    own = name_of(optimizers, sign)
    making = made(sources, own) if own else None
    return distinct(
        (
            *((span("cause", making.frame(sources), f"{name} is not given them", sources),) if making else ()),
            *span_of("related" if making else "cause", sign.stack, f"gives gradients to {whose}", sources),
        )
    )


def unused_gradients(sign: Sign, whose: str) -> str:
    """The sentence of evidence of parameters that get gradients and are in no optimizer."""
    return (
        f"{whose} got gradients in {sign.count} backward calls, no optimizer holds them, and nothing else has "
        "changed them"
    )
