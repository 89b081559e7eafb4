"""Telling parameters that were unfrozen for the training and that a module's ``train()`` freezes again."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.freezing import TrainOverride, freezing_in_train, unfreezing
from graphdoc.program.spans import distinct, place, span, span_of
from graphdoc.program.unfreezing import unfrozen_before
from graphdoc.story.optimizers import optimizer_of
from graphdoc.story.wording import folded


def frozen_again(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``frozen-again`` sign; None where no ``train()`` freezes: it may be meant."""
    override = freezing_in_train(sources)
    switched_on = unfreezing(sources)
    if override is None or not switched_on:
        return None
    whose = folded(sign.parameters) or "parameters"
    name = optimizer_of(optimizers, sign)
    freezes = override.frame(sources, override.statement)
    spans = (
        span("cause", freezes, "runs at every `train()`, and freezes them again", sources),
        *(span("cause", f, "unfreezes parameters, until the next `train()`", sources) for f in switched_on[:1]),
        *span_of("related", sign.stack, f"{name} leaves them out", sources),
    )
    return Finding(
        0.92,
        "likely",  # that ``train()`` freezes is seen; it may be the plan of the training
        f"{whose} were unfrozen, and `{override.cls.name}.train()` freezes them again",
        "`model.train()` calls `train()` of every module in it. This one freezes parameters each time, so what another "
        "part of the program unfreezes does not last.",
        distinct(spans),
        remedies=_remedies(sources, override),
        because=f"they were frozen, received gradients for some steps of {name}, and are frozen again while it steps",
    )


def frozen_throughout(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``frozen-throughout`` sign; None where the program has not unfrozen them on its way to the step
    or may have frozen them elsewhere: a frozen backbone is no fault."""
    override = freezing_in_train(sources)
    unfrozen = unfrozen_before(sources, sign.stack, override) if override is not None else None
    mine = [name for name in sign.parameters if unfrozen is not None and unfrozen.has(name)]
    if override is None or unfrozen is None or not mine:
        return None
    whose, name = folded(mine), optimizer_of(optimizers, sign)
    freezes = override.frame(sources, override.statement)
    return Finding(
        0.92,
        "likely",  # as above
        f"{whose} were unfrozen, but `{override.cls.name}.train()` freezes them before the first step",
        "`model.train()` calls `train()` of every module in it. This one freezes parameters each time, so what another "
        "part of the program unfreezes does not last.",
        distinct(
            (
                span("cause", freezes, "runs at every `train()`, and freezes them again", sources),
                span("cause", unfrozen.at, "unfreezes them, until the next `train()`", sources),
                span("related", unfrozen.train, "freezes them again", sources),
                *span_of("related", sign.stack, f"{name} leaves them out", sources),
            )
        ),
        remedies=_remedies(sources, override),
        because=f"{name} holds them, the program switches them on before the training, and they were frozen in each "
        "of its first steps",
    )


def _remedies(sources: SourceTexts, override: TrainOverride) -> tuple[Remedy, ...]:
    if not override.call or override.init_end is None:
        return ()
    deletion = {"place": place(override.frame(sources, override.statement))}
    if override.frozen_once:
        note = "it is frozen when it is made, and what is unfrozen later stays so"
        return (Remedy("delete_statement", "freeze it in `__init__` only", "unsafe", note, deletion),)
    addition = {"place": place(override.frame(sources, override.init_end)), "statement": override.call}
    edits = [{"kind": "delete_statement", "args": deletion}, {"kind": "add_statement", "args": addition}]
    note = "what is unfrozen later stays so"
    return (Remedy("several", "freeze once, when the module is made", "unsafe", note, {"edits": edits}),)
