"""Ways to write no saved tensor: out of place where it is written, or a clone where it is used."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from graphdoc.evidence import Frame, Node, Raised, SourceTexts, Stale
from graphdoc.evidence.lookup import node_with
from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.flagged_builders import builders
from graphdoc.program.in_place_writes import is_statement, operands_named, target_of
from graphdoc.program.other_names import read_by_another_name
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.saved_operands import saved_operand
from graphdoc.program.spans import code_at, innermost_user, place, where
from graphdoc.program.writers import By, Writer
from graphdoc.program.written_entries import entry_written
from graphdoc.source.module import Source
from graphdoc.source.places import Place

EXACT = "The numbers and the gradients are those of the program as it is written; it costs one more tensor."
SAME = (
    "The numbers and the gradients are those of the program as it is written, unless something else is to see the "
    "write; each costs a new tensor."
)
CALLER = "The function works on a tensor of its own; what its caller passed keeps its numbers, which the write changed."

CUT = "A new tensor that is made under `no_grad` has no graph. What is computed from it sends no gradient further back."
OTHER = "`{}`, which was the same tensor, keeps its numbers, which the write changed."


def together(edits: Sequence[dict[str, Any]], title: str, safety: Safety, note: str) -> list[Remedy]:
    """One remedy for all edits; none where there are none."""
    distinct = [e for i, e in enumerate(edits) if e not in edits[:i]]
    if not distinct:
        return []
    if len(distinct) == 1:
        return [Remedy(distinct[0]["kind"], title, safety, note, distinct[0]["args"])]
    return [Remedy("several", title, safety, note, {"edits": distinct})]


def out_of_place(sources: SourceTexts, raised: Raised | None, found: Overwrite) -> list[Remedy]:
    """New tensors instead of writes, then clones before the writes: at every writing place.

    Where some of them write what a caller passed, which changes its numbers, the others alone come first: a name that
    is bound to a new tensor takes the later writes along. A tensor that none of the others wrote needs them all.
    """
    writers = found.writers
    own = [w for w in writers if not _of_caller(sources, raised, w)]
    groups = [own, writers] if len(own) < len(writers) and _reach(own, found.stales) else [writers]
    made = [_instead(sources, raised, group) for group in groups]
    return [r for remedies in made for r in remedies[0]] + [r for remedies in made for r in remedies[1]]


def instead_of_writing(sources: SourceTexts, raised: Raised | None, found: Overwrite) -> list[Remedy]:
    """New tensors in place of writes whose results the program uses: it computes something, with what happens to be
    another name of a parameter (``picture = grid.mul_(255)``, where ``grid`` is ``image.detach()``)."""
    targets = [target_of(sources, raised, w.frame) for w in found.writers]
    if not targets or any(
        t.whole or not t.local or w.by is not By.LINE for t, w in zip(targets, found.writers, strict=True)
    ):
        return []
    edits = [
        {"kind": "out_of_place", "args": {"place": place(frame), "caller": True}}
        for w in found.writers
        for frame in write_places(sources, w)
    ]
    lines = ", ".join(dict.fromkeys(where(w.frame) for w in found.writers[:4] if w.frame is not None))
    note = f"The result is computed in a tensor of its own, and `{found.stale.tensor.name}` keeps its values."
    return together(edits, f"write out of place, at {lines}", "unsafe", note)


def _reach(writers: Sequence[Writer], stales: Sequence[Stale]) -> bool:
    """Whether each of the tensors was written at one of these places."""
    places = {w.frame.start for w in writers if w.frame is not None}
    return all(any(f.start in places for write in s.writes for f in write.stack) for s in stales)


def _instead(
    sources: SourceTexts, raised: Raised | None, writers: Sequence[Writer]
) -> tuple[list[Remedy], list[Remedy]]:
    auto: list[dict[str, Any]] = []
    clones: list[dict[str, Any]] = []
    shown: list[str] = []
    for w in writers:
        entry = entry_written(sources, w)
        named: dict[str, Any] = {"base": entry} if entry else {}
        container = {"container": True} if entry or target_of(sources, raised, w.frame).path.endswith("]") else {}
        caller = {"caller": True} if _gives_back(sources, raised, w) else {}
        for frame in write_places(sources, w):
            auto.append({"kind": "out_of_place", "args": {"place": place(frame), **container, **named, **caller}})
            clones.append({"kind": "out_of_place", "args": {"place": place(frame), "mode": "clone", **named, **caller}})
            shown.append(where(frame))
    lines = ", ".join(dict.fromkeys(shown[:4]))
    other = next((n for w in writers if (n := read_elsewhere(sources, raised, w))), "")
    cut = cuts_there(writers)
    safety: Safety = "unsafe" if cut or other or any(_of_caller(sources, raised, w) for w in writers) else "safe"
    note = SAME if safety == "safe" else CUT if cut else OTHER.format(other) if other else CALLER
    return (
        together(auto, f"write out of place, at {lines}", safety, note),
        together(clones, f"clone the tensor before it is written, at {lines}", safety, note),
    )


def cuts_there(writers: Sequence[Writer]) -> bool:
    """Whether a new tensor in place of one of the writes would lose its graph: the write itself keeps it, though it is
    not recorded (under no_grad)."""
    return any(not w.grad_mode and w.stale is not None and w.stale.tensor.requires_grad for w in writers)


def read_elsewhere(sources: SourceTexts, raised: Raised | None, writer: Writer) -> str:
    """Another name of what is written, by which it is read afterwards, or may be: that of a store which holds it."""
    target = target_of(sources, raised, writer.frame)
    if entry_written(sources, writer):
        return ""  # the container gets the new tensor, for whoever reads it
    holders = writer.stale.tensor.holders if writer.stale is not None and target.path.isidentifier() else []
    # The namespace of a session holds every name of its own under that very name.
    stores = (h.path for h in holders if h.exact and len(h.steps) > 1 and h.steps[-1].key.strip("'\"") != target.path)
    return read_by_another_name(sources, writer.frame, target.path) or next(stores, "")


def _of_caller(sources: SourceTexts, raised: Raised | None, writer: Writer) -> bool:
    """Whether a write goes into what the function around was given: its caller's tensor gets other numbers."""
    target = target_of(sources, raised, writer.frame)
    if entry_written(sources, writer):
        return False
    return target.alias or (target.parameter and not target.local)


def _gives_back(sources: SourceTexts, raised: Raised | None, writer: Writer) -> bool:
    """Whether a function writes into what it was given while its caller takes up what it returns: that the caller's
    tensor changes too need not be meant."""
    if writer.frame is None or not _of_caller(sources, raised, writer):
        return False
    around = [f for f in writer.stack if f.user and f.function != writer.frame.function]
    source = Source(around[-1].file, sources.get(around[-1].file, "")) if around else None
    statement = source.node_statement(Place.of(around[-1])) if source is not None else None
    return statement is not None and not isinstance(statement, ast.Expr)


def write_places(sources: SourceTexts, writer: Writer) -> list[Frame]:
    """Where a write can be changed: its own line, or the call that built the module with ``inplace=True``."""
    if writer.frame is None:
        return []
    if is_statement(sources, writer.frame):
        return [writer.frame]
    return builders(sources, writer.frame, list(writer.stack))


def clone_what_is_saved(nodes: list[Node], found: Overwrite) -> list[Remedy]:
    """Clone the result right where an operation has saved it, so that the writes go into the clone.

    Of a call that saves and writes below itself, a clone of what it gives back comes too late.
    """
    around = [f for w in found.writers for f in w.stack if f.user]
    edits = []
    shown = []
    for s in found.stales:
        node = node_with(nodes, s.node)
        frame = innermost_user(node.stack) if node is not None else None
        if frame in around:
            return []
        if s.output and frame is not None and frame.column:
            edits.append({"kind": "clone_expression", "args": {"place": place(frame)}})
            shown.append(where(frame))
    return together(edits, f"clone the result that is saved, at {', '.join(dict.fromkeys(shown[:3]))}", "safe", EXACT)


def clone_operand(sources: SourceTexts, nodes: list[Node], found: Overwrite) -> list[Remedy]:
    """Give the operation that saves the tensor a clone of it: found by its name in the expression.

    A result that was saved is cloned where it is computed. Each saved tensor needs one: with half of them the next one
    fails, so nothing is offered then.
    """
    edits = []
    shown = []
    saved = False
    for s in found.stales:
        node = node_with(nodes, s.node)
        frame = innermost_user(node.stack) if node is not None else None
        if frame is None or not frame.column:
            continue
        if s.output:
            edits.append({"kind": "clone_expression", "args": {"place": place(frame)}})
            shown.append(f"the result at {where(frame)}")
            continue
        names = [*(h.path for h in s.tensor.holders), s.tensor.name, found.target.path]
        operands = next((o for n in dict.fromkeys(names) if n and (o := operands_named(sources, frame, n))), [])
        unnamed = saved_operand(sources, frame, node.op, s.attribute) if node is not None and not operands else None
        if not operands and unnamed is None:
            return []
        args = {"place": place(frame), "operands": operands} if unnamed is None else {"place": place(unnamed)}
        edits.append({"kind": "clone_expression", "args": args})
        shown.append(f"{operands[0] if unnamed is None else code_at(sources, unnamed)} at {where(frame)}")
        saved = True
    if not saved:
        return []
    note = "The operations keep a copy of the values of now; later writes do not reach it. The numbers stay the same."
    return together(edits, f"use a clone of {', '.join(list(dict.fromkeys(shown))[:3])}", "safe", note)
