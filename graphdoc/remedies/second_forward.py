"""A forward pass of its own for the second of two losses, behind the step that the first one makes."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import assignments, names_in
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, place, where
from graphdoc.program.stored_values import user_frames
from graphdoc.program.value_reads import bound_names, meeting
from graphdoc.source.module import Source
from graphdoc.source.places import Place

MOST_SEEDS = 8


def second_forward(program: Program, reuse: Reuse) -> list[Remedy]:
    """Compute what both losses share once more behind the step in between, for the loss that comes after it.

    Only where one function makes the first call, the step and the second call in this order, and the step moves
    something that the second loss reaches.
    """
    calls = _in_one_function(reuse) if not reuse.only_heads_stepped else None
    if calls is None:
        return []
    step, failing = calls
    seeds = _shared(program, reuse, step)
    if not seeds:
        return []
    return [
        Remedy(
            "recompute_after",
            f"run the forward pass again for the second loss, after {where(step)}",
            "unsafe",
            "The second loss is computed with the weights as they are after that step, and its gradient is theirs.",
            {"places": [place(f) for f in seeds], "after": place(step), "backward": place(failing)},
        )
    ]


def _in_one_function(reuse: Reuse) -> tuple[Frame, Frame] | None:
    """The last step between the two calls and the failing call, as the innermost function that makes all three has
    them."""
    if reuse.calls is None:
        return None
    steps = [e for e in reuse.journal.between(*reuse.calls) if e.kind == "step"]
    for failing in user_frames(reuse.calls[1].stack):
        first = in_function(user_frames(reuse.calls[0].stack), failing)
        step = in_function(user_frames(steps[-1].stack), failing) if steps else None
        if first is not None and step is not None and first.line < step.line < failing.line:
            return step, failing
    return None


def _shared(program: Program, reuse: Reuse, step: Frame) -> list[Frame]:
    """The statements above the step that made the shared values and what they were made from, as far as it has a
    graph."""
    graphs = {t.path for t in program.tensors if t.requires_grad and not t.is_leaf and t.function == step.function}
    todo: list[str] = []
    seeds: dict[int, Frame] = {}
    for c in reuse.carries:
        made, taken = program.node(c.producer), program.node(c.consumer)
        pair = meeting(made, taken) if made is not None and taken is not None else None
        if pair is None or (pair[0].file, pair[0].function) != (step.file, step.function):
            return []
        held = [h.path for h in c.tensor.holders if h.exact]
        if not held and bound_names(program.sources, pair[0]):
            # Its names are bound anew by now, as by ``loss = loss.mean()``: the statement is known all the same.
            seeds.setdefault(pair[0].line, pair[0])
            held = names_in(_value(program.sources, pair[0]))
        todo += held
    seen: set[str] = set()
    while todo and len(seeds) < MOST_SEEDS:
        name = todo.pop()
        if name in seen or name not in graphs:
            continue
        seen.add(name)
        for statement, value in assignments(program.sources, step, name)[:1]:
            seeds.setdefault(statement.line, statement)
            todo += names_in(value)
    return [seeds[line] for line in sorted(seeds)]


def _value(sources: SourceTexts, frame: Frame) -> ast.expr | None:
    """What the assignment around this place assigns."""
    source = Source(frame.file, sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    return owner.value if isinstance(owner, ast.Assign) else None
