"""A write into what an earlier graph needs, put behind the backward call that needs it."""

from __future__ import annotations

import ast

from graphdoc.finding import Remedy
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import where
from graphdoc.program.update_function import scene
from graphdoc.program.writers import By
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def move_behind(program: Program, found: Overwrite) -> list[Remedy]:
    """Write behind the backward call, where the write is a statement of its own (or of a loop of its own)."""
    at = scene(program, found)
    if at is None or at.order != "straight" or any(w.by is By.LIBRARY for w in found.writers):
        return []
    source = Source(at.write.file, program.sources.get(at.write.file, ""))
    write, backward = source.node_statement(Place.of(at.write)), source.node_statement(Place.of(at.backward))
    above = [backward, *source.node_ancestors(backward)] if backward is not None else []
    whole = write
    while whole is not None:
        found_block = source.node_block(whole)
        anchor = next((a for a in above if found_block is not None and a in found_block[0]), None)
        if anchor is not None:
            break
        parent = source.parents.get(whole)
        whole = parent if isinstance(parent, ast.For | ast.With | ast.While) else None
    if whole is None or anchor is None or whole is anchor:
        return []
    return [
        Remedy(
            "move_statement",
            f"move the write at {where(at.write)} behind the backward call at {where(at.backward)}",
            "unsafe",
            "The loss is differentiated with the values of its own forward; the write takes place right after.",
            {"place": vars(source.place(whole)), "after": vars(source.place(anchor)), "same_loss": True},
        )
    ]
