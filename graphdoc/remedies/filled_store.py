"""A store that a function fills: each entry without its graph as it is stored, or the function without gradients."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.evidence import Folded, Frame, Holder, Node, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.finding import Remedy
from graphdoc.program.bindings import frame_of
from graphdoc.program.container_entries import FILLING, entry_of, given, putting
from graphdoc.program.expression_values import calls_into, in_training
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.program.stored_values import kept_at, user_frames
from graphdoc.remedies.constant_value import frame_at, together
from graphdoc.source.module import Source
from graphdoc.source.places import Place
from graphdoc.story.older_graph import distinct_carries

DATA = "What is stored is data for the updates; no gradient goes through it."


def tuple_of(kind: str) -> Any:
    return {"tuple": ["tensor", "tensor"]} if kind == "tuple" else {"list": "tensor"} if kind == "list" else None


def stored(sources: SourceTexts, nodes: list[Node], reuse: Reuse) -> list[Remedy]:
    """Cut at the expression that goes into the store: an argument of the call that keeps it."""
    edits: list[dict[str, Any]] = []
    for c in distinct_carries(nodes, reuse.carries):
        producer = node_with(nodes, c.producer)
        frames = user_frames(producer.stack) if producer is not None else []
        seen: set[tuple[str, str, str]] = set()
        for holder in c.tensor.holders:
            entry = entry_of(holder)
            if entry is None or (told := (entry.container, entry.type, entry.field.key if entry.field else "")) in seen:
                continue
            seen.add(told)
            structure = "tensor" if not entry.rest else None
            if len(entry.rest) == 1 and entry.field is not None:
                structure = tuple_of(entry.field.type)
            found = putting(sources, frames, entry) if structure is not None else []
            if not found and producer is not None and structure is not None:
                found = _elsewhere(sources, nodes, holder, producer)
            for frame, statement in found:
                value = given(sources, statement, entry)
                if value is None or isinstance(value, ast.Constant):
                    continue
                at = frame_of(sources, frame.file, value, frame.function)
                edit = {"kind": "detach_expression", "args": {"place": place(at), "structure": structure}}
                if edit not in edits:
                    edits.append(edit)
    if not edits:
        return []
    line = where(frame_at(edits[0]["args"]["place"]))
    return [
        together(
            edits,
            f"store it detached, at {line}",
            DATA,
        )
    ]


def _elsewhere(sources: SourceTexts, nodes: list[Node], holder: Holder, producer: Node) -> list[tuple[Frame, ast.stmt]]:
    """The one statement that puts a value into its store, where no function that was under way when it was made does
    so: that of a hook."""
    kept = kept_at(sources, nodes, None, [holder], producer)
    statement = Source(kept[0].file, sources.get(kept[0].file, "")).node_statement(Place.of(kept[0])) if kept else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    puts = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in FILLING
    return [(kept[0], statement)] if len(kept) == 1 and statement is not None and puts else []


def no_grad_over_maker(program: Program, reuse: Reuse) -> list[Remedy]:
    """The whole function that filled the store, without gradients.

    Left out: functions in which the training itself runs, those that the update calls too (they compute what it
    trains), and constructors.
    """
    for c in distinct_carries(program.nodes, reuse.carries)[:1]:
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        made = user_frames(producer.stack if producer else [])
        known = {(f.file, f.function) for f in made}
        updating = [f for f in user_frames(consumer.stack if consumer else []) if (f.file, f.function) not in known]
        for frame in made:
            if (
                frame.function == "<module>"
                or frame.function.endswith("__init__")
                or in_training(program.evidence.events, frame)
            ):
                continue
            if calls_into(program.sources, updating, frame.function) or _runs_in(
                program.evidence.folded, updating, frame
            ):
                continue
            return [
                Remedy(
                    "no_grad_decorator",
                    f"fill the store without gradients: @torch.no_grad() on {frame.function}",
                    "unsafe",
                    f"What {frame.function} gives has no graph then; what the updates compute themselves is trained as "
                    "before.",
                    {"place": place(frame)},
                )
            ]
    return []


def _runs_in(folded: Folded | None, updating: list[Frame], maker: Frame) -> bool:
    """Whether the failing graph has a part made in a function below one of these: the update computes with it."""
    above = {(f.file, f.function) for f in updating}
    for part in folded.parts if folded is not None else ():
        path = [(f.file, f.function) for f in part.stack]
        if (maker.file, maker.function) in path and above & set(path[: path.index((maker.file, maker.function))]):
            return True
    return False
