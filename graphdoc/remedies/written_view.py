"""Ways to write into no view of whose writes autograd keeps no track."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.exception import SEVERAL_VIEWS, message_of
from graphdoc.program.in_place_writes import Target
from graphdoc.program.observed import Program
from graphdoc.program.spans import place, where
from graphdoc.program.written_leaves import is_for_its_effect
from graphdoc.remedies.in_place_write import together
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def instead_of_write(program: Program, places: list[Frame], target: Target) -> tuple[Remedy, ...]:
    """A new tensor or a clone in place of a write; where a loop runs over the pieces, what may be done with all."""
    sources, raised = program.sources, program.raised
    leaves = {p.name.rsplit(".", 1)[-1] for p in program.parameters if p.is_leaf and p.requires_grad}
    joined = [_joined(sources, f) for f in places] if message_of(raised, *SEVERAL_VIEWS) else []
    if joined and all(joined):
        # The loop's variable is not what is used afterwards: a new tensor under its name would be lost.
        lines = ", ".join(where(f) for f in places[:3])
        of_leaf = joined[0].rsplit(".", 1)[-1] in leaves
        return (
            *together(
                [{"kind": "join_pieces", "args": {"place": place(f)}} for f in places],
                f"compute new pieces and join them, instead of writing into those of `{joined[0]}`, at {lines}",
                "unsafe",
                "All of it is differentiated. What else shares the memory of the tensor keeps its numbers, which the "
                "write would have changed.",
            ),
            *together(
                # Into a piece of a leaf may not be written, however it is taken.
                [{"kind": "pieces_by_index", "args": {"place": place(f)}} for f in ([] if of_leaf else places)],
                f"take the pieces of `{joined[0]}` one by one, by their index, where {lines} writes into them",
                "unsafe",
                f"Into a piece that is taken by itself may be written; `{joined[0]}` is written with it, as before.",
            ),
        )
    unread = not target.path or all(is_for_its_effect(sources, f, target.path) for f in places)
    if unread and message_of(raised, *SEVERAL_VIEWS) and not program.evidence.events:
        # Before anything is differentiated, and read by nobody: the numbers of what it is a view of are begun so.
        blocks = [{"kind": "under_no_grad_update", "args": {"place": place(f)}} for f in places if _begins(program, f)]
        note = "What it is a view of gets these numbers, and nothing of it is recorded."
        return tuple(together(blocks, f"put the write at {where(places[0])} under torch.no_grad()", "unsafe", note))
    auto = [{"kind": "out_of_place", "args": {"place": place(f)}} for f in places]
    clones = [{"kind": "out_of_place", "args": {"place": place(f), "mode": "clone"}} for f in places]
    lines = ", ".join(where(f) for f in places[:3])
    note = "The write makes a new tensor; what it was a view of keeps its numbers."
    out = [
        *together(auto, f"write out of place, at {lines}", "unsafe", note),
        *together(clones, f"clone the view before it is written, at {lines}", "unsafe", note),
    ]
    if not target.sliced and target.kept:
        out.reverse()
    base = next((b for f in places if (b := _base_read(sources, f, target.path))), "")
    left = f"`{base}` is read behind the write, too: whether it is to see what is written, no run tells" if base else ""
    return tuple(replace(r, open=left) for r in out)


def _base_read(sources: SourceTexts, frame: Frame, path: str) -> str:
    """What the written view is a part of, where the function reads that behind the write."""
    from graphdoc.fixes.aliases import base_read_after

    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    return base_read_after(source, owner, path) if owner is not None else ""


def _begins(program: Program, frame: Frame) -> bool:
    """Whether a statement is a write alone, made while no module was computing its output."""
    source = Source(frame.file, program.sources.get(frame.file, ""))
    alone = isinstance(source.node_statement(Place.of(frame)), ast.Expr | ast.AugAssign)
    return alone and not program.raised_in_forward


def _joined(sources: SourceTexts, frame: Frame) -> str:
    """The tensor over whose pieces a loop around the write runs; empty where there is none."""
    from graphdoc.fixes.pieces import pieces_at

    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    found = pieces_at(source, owner) if owner is not None else None
    return source.segment(found.base) if found is not None else ""
