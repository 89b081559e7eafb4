"""Telling parameters that are unfrozen when their optimizer has been made without them."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding
from graphdoc.program.late_unfreezing import unfrozen_behind
from graphdoc.program.signs import name_of
from graphdoc.program.spans import distinct, span, span_of
from graphdoc.story.in_no_optimizer import unused_gradients
from graphdoc.story.wording import folded


def unfrozen_late(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding; None where the source has no such order."""
    name, whose = name_of(optimizers, sign), folded(sign.parameters)
    found = unfrozen_behind(sources, name, sign.parameters) if name else None
    if found is None:
        return None
    making, late = found
    return Finding(
        0.92,
        "likely",  # that nobody trains them is seen; that somebody should is the reading of the source
        f"no optimizer holds {whose}: they were frozen when `{name}` was made",
        f"`{name}` was given only what required gradients then. What is unfrozen later gets gradients that nobody "
        "uses. Give the optimizer all parameters: it leaves alone what has no gradient. Or add these with "
        "`add_param_group` where they are unfrozen.",
        distinct(
            (
                span("cause", making, f"`{name}` takes only what requires gradients now", sources),
                span("related", late, "unfrozen here, and in no optimizer", sources),
                *span_of("related", sign.stack, f"gives gradients to {whose}", sources),
            )
        ),
        because=unused_gradients(sign, whose),
    )
