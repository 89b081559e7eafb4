"""Telling an iterator of parameters that was used up before the call that was to go through it."""

from __future__ import annotations

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Span
from graphdoc.program.one_shot import OneShot
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, place, span

_WHY = (
    "`parameters()`, `filter()` and generator expressions give an iterator. Who goes through it first uses it up, and "
    "everybody after that finds nothing in it. No error tells, because an empty iterator is a valid one."
)


def nothing_left(
    sources: SourceTexts,
    found: OneShot,
    call: Frame,
    title: str,
    effect: str,
    because: str,
    more: tuple[Span, ...] = (),
) -> Finding:
    """The finding: the iterator's own place is the one to change, ``call`` is where nothing was left of it."""
    note = f"everybody who goes through `{found.name}` finds all of it"
    spans = (
        span("cause", found.frame, "can be gone through only once", sources),
        span("related", call, effect, sources),
        *more,
    )
    fix = f"keep a list in `{found.name}`, not an iterator"
    return Finding(
        0.93,
        Proof.SOURCE.confidence,
        title,
        _WHY,
        distinct(spans),
        remedies=(Remedy("wrap_in_list", fix, "unsafe", note, {"place": place(found.frame)}),),
        because=because,
    )
