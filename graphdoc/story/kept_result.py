"""Telling an attribute that is the result of an operation on a parameter: the module does not have the parameter."""

from __future__ import annotations

from graphdoc.evidence import Frame, Optimizer, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.spans import distinct, innermost_user, place, span, span_of
from graphdoc.story.not_registered import assigned_in
from graphdoc.story.optimizers import optimizer_of


def kept_result(sources: SourceTexts, optimizers: list[Optimizer], sign: Sign) -> Finding | None:
    """The finding for a ``kept-result`` sign; None where its place is not known."""
    cls, attribute = str(sign.facts["class"]), str(sign.facts["attribute"])
    assigned = assigned_in(sources, cls.rpartition(".")[2], f"self.{attribute}")
    whole = bindings.frame_of(sources, *assigned[0]) if len(assigned) == 1 else None
    made = whole or innermost_user(sign.stack)
    if made is None:
        return None
    name = optimizer_of(optimizers, sign)
    return Finding(
        0.93,
        "likely",  # what is kept, and that no optimizer has what it came from, is seen; not that it is to be trained
        f"`self.{attribute}` of `{cls}` is computed from a parameter that no optimizer holds",
        f"A module registers a `Parameter` that is assigned to an attribute. The operation behind it gives a plain "
        f"tensor, so `{cls}.parameters()` does not find it. Gradients go to the parameter that was thrown away.",
        distinct(
            (
                span("cause", made, "a plain tensor with a graph, not a parameter", sources),
                *span_of(
                    "related", sign.other, "gives gradients to the parameter behind it, which nobody uses", sources
                ),
            )
        ),
        remedies=() if whole is None else (_remedy(whole, attribute),),
        because=f"the parameter behind it got gradients in {sign.count} backward calls; {name} holds other "
        "parameters of the same model",
    )


def _remedy(whole: Frame, attribute: str) -> Remedy:
    title = "Make the parameter of the result, not the result of the parameter"
    note = f"`parameters()` finds `self.{attribute}`, and an optimizer that is given all of the module's trains it."
    return Remedy("make_leaf", title, "unsafe", note, {"place": place(whole), "name": f"self.{attribute}"})
