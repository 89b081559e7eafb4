"""One backward call on the sum of the losses, where both losses can be had at one place."""

from __future__ import annotations

from graphdoc.evidence import SourceTexts
from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.container_entries import user_frames
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.remedies.fix_places import applies


def merge(reuse: Reuse) -> list[Remedy]:
    """Call backward once on the sum; both have to be calls of ``backward``, and one function has to see them."""
    freeing, failing = reuse.freeing, reuse.failing
    if freeing is None or failing is None or {freeing.kind, failing.kind} != {"backward"}:
        return []
    one, other = innermost_user(freeing.stack), innermost_user(failing.stack)
    heads = reuse.only_heads_stepped
    note = "Gradients add up: the sum has the gradient that all the calls together were meant to give."
    if heads:
        note += " The optimizers in between step after it: no other loss reaches their parameters."
    moved = {"move_steps": True} if heads else {}
    safety: Safety = "unsafe" if heads else "safe"
    if one is not None and other is not None and place(one) == place(other):
        title = f"call backward() once on the sum of the losses, instead of once for each, at {where(one)}"
        return [Remedy("merge_backward", title, safety, note, {"places": [place(one)], **moved})]
    for first in user_frames(freeing.stack):
        for second in user_frames(failing.stack):
            if first.file == second.file and first.function == second.function and first.line != second.line:
                title = f"call backward() once, on the sum of both losses, at {where(second)}"
                return [
                    Remedy("merge_backward", title, safety, note, {"places": [place(first), place(second)], **moved})
                ]
    return []


def can_merge(sources: SourceTexts, reuse: Reuse) -> bool:
    """Whether the source lets the calls be made one."""
    return any(applies(sources, r) for r in merge(reuse))
