"""Telling parameters that were unfrozen for the training and that a module's ``train()`` freezes again."""

from __future__ import annotations

from graphdoc.evidence import Evidence, Sign
from graphdoc.finding import Finding, Remedy
from graphdoc.program.freezing import TrainOverride, freezing_in_train, unfreezing
from graphdoc.program.signs import optimizer_of
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.story.wording import folded


def frozen_again(evidence: Evidence, sign: Sign) -> Finding | None:
    """The finding for a ``frozen-again`` sign; None where no ``train()`` freezes: it may be meant."""
    override = freezing_in_train(evidence)
    switched_on = unfreezing(evidence)
    if override is None or not switched_on:
        return None
    whose = folded(sign.parameters) or "parameters"
    name = optimizer_of(evidence, sign)
    freezes = override.frame(evidence, override.statement)
    spans = (
        span("cause", freezes, "runs at every `train()`, and freezes them again", evidence),
        *(span("cause", f, "unfreezes parameters, until the next `train()`", evidence) for f in switched_on[:1]),
        *span_of("related", sign.stack, f"`{name}` leaves them out", evidence),
    )
    return Finding(
        0.92,
        "certain",
        f"{whose} were unfrozen, and `{override.cls.name}.train()` freezes them again",
        "`model.train()` calls `train()` of every module in it. This one freezes parameters each time, so what another "
        "part of the program unfreezes does not last.",
        distinct(spans),
        remedies=_remedies(evidence, override),
        because=f"they were frozen, received gradients for some steps of `{name}`, and are frozen again while it steps",
    )


def _remedies(evidence: Evidence, override: TrainOverride) -> tuple[Remedy, ...]:
    if not override.call or override.init_end is None:
        return ()
    deletion = {"place": place(override.frame(evidence, override.statement))}
    addition = {"place": place(override.frame(evidence, override.init_end)), "statement": override.call}
    edits = [{"kind": "delete_statement", "args": deletion}, {"kind": "add_statement", "args": addition}]
    note = "what is unfrozen later stays so"
    return (Remedy("several", "freeze once, when the module is made", "unsafe", note, {"edits": edits}),)
