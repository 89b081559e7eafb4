"""A state that another pass renews between an update's step and the next update: cut behind that pass."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.evidence import Frame, Node
from graphdoc.evidence.lookup import node_with
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, place, where
from graphdoc.program.stored_values import user_frames
from graphdoc.remedies.constant_value import together
from graphdoc.remedies.lost_gradient import stops_there
from graphdoc.source.module import Source
from graphdoc.source.places import Place

_RENEWED = " (also those through other passes between two updates)"


def renewed_outside(nodes: list[Node], reuse: Reuse, call: Frame) -> bool:
    """Whether a pass that this function does not run (an evaluation in between) has renewed the value since the update
    that this function did run: behind its step it has no graph yet, and at the next update it has one again."""

    def runs(number: int) -> bool:
        node = node_with(nodes, number)
        return node is not None and in_function(node.stack, call) is not None

    return any(runs(c.producer) and not runs(c.consumer) for c in reuse.carries)


def renewed_by_others(program: Program, reuse: Reuse, call: Frame) -> bool:
    """Whether other functions, too, make the call that renews the value, in grad mode: an evaluation that the run has
    not come to yet leaves a graph in it."""
    for node in (program.node(c.consumer) for c in reuse.carries):
        frames = user_frames(node.stack) if node is not None else []
        here = in_function(frames, call)
        made = bindings.call_at(program.sources, here) if here is not None and here is not frames[0] else None
        name = bindings.text_of(made.func).rpartition(".")[2] if made is not None else ""
        for other in bindings.calls_named(program.sources, name) if name else ():
            root = bindings.tree(program.sources, other.file)
            scope = bindings.function_around(root, other.line) if root is not None else None
            own = scope is None or (other.file == call.file and scope.name == call.function.rpartition(".")[2])
            if not own and not bindings.switches_around(program.sources, other):
                return True
    return False


def detach_before_use(program: Program, reuse: Reuse, call: Frame, paths: list[tuple[str, Any]]) -> list[Remedy]:
    """Cut in front of the forward that takes the value up: whatever renewed it since the last update is cut off."""
    source = Source(call.file, program.sources.get(call.file, ""))
    backward = source.node_statement(Place.of(call))
    if backward is None or not paths or not all("." in path for path, _ in paths):
        return []
    chain = [backward, *(n for n in source.node_ancestors(backward) if isinstance(n, ast.stmt))]
    first: ast.stmt | None = None
    for node in (program.node(c.consumer) for c in reuse.carries):
        frame = in_function(node.stack if node else (), call)
        taken = source.node_statement(Place.of(frame)) if frame is not None else None
        while taken is not None and not _beside(source, taken, chain):
            taken = next((n for n in source.node_ancestors(taken) if isinstance(n, ast.stmt)), None)
        if taken is None or taken in chain:
            return []
        first = taken if first is None or taken.lineno < first.lineno else first
    if first is None:
        return []
    shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
    at = bindings.frame_of(program.sources, call.file, first, call.function)
    return [
        Remedy(
            "detach_after",
            f"detach {shown} before each update, at {where(at)}",
            "unsafe",
            stops_there(program.evidence.fresh_reaches, reuse, _RENEWED),
            {"before": place(at), "paths": [list(p) for p in paths]},
        )
    ]


def _beside(source: Source, statement: ast.stmt, chain: list[ast.stmt]) -> bool:
    """Whether a statement stands in one block with one of these."""
    block = source.node_block(statement)
    return block is not None and any(any(s is c for c in chain) for s in block[0])


def detach_behind_renewal(
    program: Program, reuse: Reuse, call: Frame, anchor: Frame, paths: list[tuple[str, Any]]
) -> list[Remedy]:
    """Cut where the pass in between has ended; behind the update as well where that pass may be left out."""
    source = Source(call.file, program.sources.get(call.file, ""))
    update = source.node_statement(Place.of(anchor))
    behind: list[Frame] = []
    for node in (program.node(c.consumer) for c in reuse.carries):
        frame = in_function(node.stack if node else (), call)
        if frame is not None and frame.line not in (call.line, *(f.line for f in behind)):
            behind.append(frame)
    if not behind or update is None:
        return []
    block = source.node_block(update)
    renewals = [source.node_statement(Place.of(f)) for f in behind]
    always = block is not None and all(any(s is r for s in block[0]) for r in renewals)
    places = behind if always else [anchor, *behind]
    shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
    edits = [{"kind": "detach_after", "args": {"after": place(f), "paths": [list(p) for p in paths]}} for f in places]
    return [
        together(
            edits,
            f"detach {shown} after the call at {' and '.join(where(f) for f in places)}",
            stops_there(program.evidence.fresh_reaches, reuse, " (also those through the pass between two updates)"),
        )
    ]
