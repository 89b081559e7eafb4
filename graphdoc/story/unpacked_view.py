"""Telling of one of several views that a backward call needs, and that was written since it was taken out."""

from __future__ import annotations

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, place, span, where
from graphdoc.program.unpacked_views import Unpacked


def told_unpacked(sources: SourceTexts, found: Unpacked, failed: Frame, title: str) -> Finding:
    """The finding with this title, where it is known which view the backward call needs, and of what it is one."""
    name, whole = " or ".join(f"`{n}`" for n in found.names), f"`{code_at(sources, found.whole)}`"
    spans = (
        span("cause", found.whole, f"{name} is one of several views of this", sources),
        span("consumed", found.used, f"{name} is saved here for backward", sources),
        span("failed", failed, f"needs {name}; {whole} was written in place since", sources),
    )
    note = "What is taken apart is a copy then: no later write reaches it, and none is to be seen through it."
    return Finding(
        0.96,
        Proof.RAISED.where(found.alone),
        title,
        f"{name}, saved at {where(found.used)}, is one of several views (`unbind`, `chunk`, `split`) of {whole}. Since "
        f"then the memory behind {whole} was written in place, and autograd cannot tell what the views are now.",
        spans,
        remedies=(
            Remedy(
                "clone_expression",
                f"take the parts of a copy, at {where(found.whole)}",
                "unsafe",
                note,
                {"place": place(found.whole), "structure": "tensor"},
                "whether what is written is to be seen through the parts, no run tells" * found.held,
            ),
        ),
        because=f"{where(found.used)} has saved {name}, and the engine refuses it as a view whose base was written",
    )
