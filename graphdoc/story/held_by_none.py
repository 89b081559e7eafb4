"""Telling parameters that get gradients and are in no optimizer, where nothing else says that they should be."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding
from graphdoc.program.optimizer_places import made
from graphdoc.program.signs import is_named, optimizer_of
from graphdoc.program.spans import distinct, span, span_of
from graphdoc.story.wording import folded


def held_by_none(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding:
    """A weak finding: a network may be left as it is on purpose, and the run cannot tell."""
    name, whose = optimizer_of(optimizers, sign), folded(sign.parameters)
    making = made(sources, name) if is_named(optimizers, sign) else None
    spans = (
        *((span("cause", making.frame(sources), f"`{name}` is not given them", sources),) if making else ()),
        *span_of("related" if making else "cause", sign.stack, f"gives gradients to {whose}", sources),
    )
    return Finding(
        0.4,
        "possible",  # so is every network that is left alone on purpose
        f"no optimizer holds {whose}, which get gradients",
        f"`{name}` steps other parameters of the same loss. If these are meant to learn, give them to it; if not, "
        "`requires_grad_(False)` says so and saves their gradients.",
        distinct(spans),
        because=f"{whose} got gradients in {sign.count} backward calls, no optimizer holds them, and nothing else has "
        "changed them",
    )
