"""One backward call on the sum of the losses, where both losses can be had at one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.bindings import call_at, frame_of, given_as, text_of
from graphdoc.program.container_entries import user_frames
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.program.written_out import without_helpers
from graphdoc.remedies.fix_places import applies
from graphdoc.source.module import receiver_of


def merge(reuse: Reuse) -> list[Remedy]:
    """Call backward once on the sum; both have to be calls of ``backward``, and one function has to see them."""
    freeing, failing = reuse.freeing, reuse.failing
    if freeing is None or failing is None or {freeing.kind, failing.kind} != {"backward"}:
        return []
    ways = [without_helpers(reuse.sources, s) for s in (freeing.stack, failing.stack)]
    one, other = (innermost_user(way) for way in ways)
    heads = reuse.only_heads_stepped
    note = "Gradients add up: the sum has the gradient that all the calls together were meant to give."
    if heads:
        note += " The optimizers in between step after it: no other loss reaches their parameters."
    moved = {"move_steps": True} if heads else {}
    safety: Safety = "unsafe" if heads else "safe"
    given = _given(reuse.sources, (freeing.stack, failing.stack), ways)
    if one is not None and other is not None and place(one) == place(other):
        title = f"call backward() once on the sum of the losses, instead of once for each, at {where(one)}"
        return [Remedy("merge_backward", title, safety, note, {"places": [place(one)], **given, **moved})]
    for first in user_frames(freeing.stack):
        for second in user_frames(failing.stack):
            if first.file == second.file and first.function == second.function and first.line != second.line:
                title = f"call backward() once, on the sum of both losses, at {where(second)}"
                args = {"places": [place(first), place(second)], **moved}
                args |= {k: v for k, v in given.items() if (first, second) == (one, other)}
                return [Remedy("merge_backward", title, safety, note, args)]
    return []


def _given(sources: SourceTexts, stacks: Sequence[list[Frame]], ways: Sequence[list[Frame]]) -> dict[str, Any]:
    """The losses that these calls give to a function which only calls backward on them; empty where none does."""
    losses: list[dict[str, Any]] = []
    for stack, way in zip(stacks, ways, strict=True):
        inner, caller = innermost_user(stack), innermost_user(way)
        call = call_at(sources, inner)
        if inner is None or caller is None or inner is caller or call is None:
            return {}
        loss = given_as(sources, inner, caller, text_of(receiver_of(call)))
        losses += [place(frame_of(sources, caller, loss))] if loss is not None else []
    return {"losses": losses[: 1 if ways[0][-1:] == ways[1][-1:] else 2]} if len(losses) == 2 else {}


def can_merge(sources: SourceTexts, reuse: Reuse) -> bool:
    """Whether the source lets the calls be made one."""
    return any(applies(sources, r) for r in merge(reuse))
