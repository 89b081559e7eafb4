"""Telling of a write that is refused because its result is assigned to itself through ``[:]`` once more."""

from __future__ import annotations

from graphdoc.evidence import SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.proof import Proof
from graphdoc.program.refused_writes import RefusedWrite
from graphdoc.program.spans import place, span, where


def told_written_back(sources: SourceTexts, write: RefusedWrite) -> Finding:
    """The finding where the tensor that PyTorch's message calls a leaf is none."""
    what, at = f"`{write.target.path}`", where(write.frame)
    return Finding(
        0.96,
        Proof.RAISED.confidence,
        f"a slice of {what} is assigned to itself, which PyTorch refuses",
        f"{what} is no leaf: it was computed. `+=` through `[:]` adds to the slice, and then assigns the "
        "sum to the slice again. PyTorch refuses this second write: leave out the `[:]`.",
        (span("cause", write.frame, f"adds through `[:]` to a part of {what}, and assigns it back", sources),),
        remedies=(
            Remedy(
                "drop_full_slice",
                f"add without the `[:]`, at {at}",
                "safe",
                "The same elements are added to; the numbers and the gradients are those that were meant.",
                {"place": place(write.frame)},
            ),
        ),
        because=f"{what} had a history when {at} failed, and the message speaks of a leaf",
    )
