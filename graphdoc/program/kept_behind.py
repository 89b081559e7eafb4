"""What a round makes of its values behind the backward call, and keeps for the next one under another name."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.evidence import Event, Holder, Node, OlderEdge, SourceTexts, Step, Tensor
from graphdoc.evidence.lookup import node_with
from graphdoc.program.container_entries import statements_at
from graphdoc.program.loops import node_loop_of
from graphdoc.program.spans import in_function, innermost_user
from graphdoc.source.paths import covers, targets_of


def kept_behind_call(sources: SourceTexts, nodes: list[Node], carry: OlderEdge, failing: Event | None) -> OlderEdge:
    """The edge as it is; where the round of the earlier call itself took the value up (``memory = tanh(out)`` behind
    ``backward()``), that of the name which goes on to the next round instead, with no node that takes it up there."""
    taking = node_with(nodes, carry.consumer)
    call = innermost_user(failing.stack) if failing is not None else None
    at = in_function(taking.stack, call) if taking is not None and call is not None else None
    loop = node_loop_of(sources, call) if call is not None else None
    if taking is None or call is None or at is None or loop is None:
        return carry
    if not covers(loop, at.line) or at.line <= call.line:
        return carry
    statement = next(iter(statements_at(sources, at)[-1:]), None)
    targets = targets_of(statement) if isinstance(statement, ast.Assign) else []
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or in_function(taking.stack[::-1], call) is not at:
        return carry
    name = targets[0].id
    read = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    if not any(n.lineno <= call.line for n in read) or any(h.base == name for h in carry.tensor.holders):
        return carry
    holder = Holder(name, at.function, at.file, [Step("name", name, "Tensor")], True, name, "tensor")
    kept = Tensor("activation", name, taking.shape, holders=[holder])
    return replace(carry, producer=taking.id, consumer=-1, tensor=kept)
