"""Where a gradient is complete: behind what changes it after the backward call, in front of what throws it away."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place

_CHANGES = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "unscale_"})
"""What is called on a gradient before it is used."""
_ENDS = frozenset({"backward", "zero_grad", "step"})


def step_place(sources: SourceTexts, backward: Frame, cleared: Frame | None) -> tuple[Place, bool]:
    """The statement beside which a step belongs, and whether it goes in front of it.

    Gradients that are added up over several calls are thrown away under a condition of its own: they are complete in
    front of that. Otherwise they are behind the call, and behind what clips or scales them there.
    """
    source = Source(backward.file, sources.get(backward.file, ""))
    call = source.node_statement(Place.of(backward))
    found = source.node_block(call) if call is not None else None
    if call is None or found is None:
        return Place.of(backward), False
    block, at = found
    thrown = source.node_statement(Place.of(cleared)) if cleared is not None and cleared.file == backward.file else None
    anchor = call
    for later in block[at + 1 :]:
        if thrown is not None and thrown is not later and any(n is thrown for n in ast.walk(later)):
            return source.place(thrown), True
        called = {last_word(n.func) for n in ast.walk(later) if isinstance(n, ast.Call)}
        if called & _ENDS:
            break
        anchor = later if called & _CHANGES else anchor
    return (source.place(anchor), False) if anchor is not call else (Place.of(backward), False)
