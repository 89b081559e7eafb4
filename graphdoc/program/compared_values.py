"""A value from before the updates that the loss compares with what it computes anew: the old policy's log-probability,
a prediction taken as a target. It is data, whatever trains what lies behind it."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.flows import made_of
from graphdoc.program.spans import innermost_user
from graphdoc.program.value_reads import bound_names
from graphdoc.source.paths import last_word

MOST_ASSIGNMENTS = 2
"""Assignments that are followed from an operand to the call that computed it."""
_COMPARING = (
    "SubBackward",
    "DivBackward",
    "RsubBackward",
    "MseLoss",
    "L1Loss",
    "SmoothL1",
    "Huber",
    "KlDiv",
    "CrossEntropy",
)


def is_reference(sources: SourceTexts, nodes: list[Node], carries: list[OlderEdge]) -> bool:
    """Whether the failing pass only compares with each of these values: the operation that takes it up sets it against
    another one (a difference, a ratio, a distance) which the same function or method has computed anew.

    To be asked where everything that the loss is meant to train behind them gets gradient through the rest, too.
    """
    set_against = [c.compared in ("ratio", "distance") or _compared(sources, nodes, c) for c in carries]
    # What it weighs with is no more to be learned through than what it compares with.
    beside = [c.factor or c.compared for c in carries]
    return any(set_against) and all(s or b for s, b in zip(set_against, beside, strict=True))


def is_distance(sources: SourceTexts, nodes: list[Node], carries: list[OlderEdge]) -> bool:
    """Whether the graph alone shows a value as a reference, by a distance: what a pass is drawn to may be meant to move
    with it (the mean of a class), where the one side of a ratio or of a divergence is not."""
    return any(c.compared == "distance" and not _compared(sources, nodes, c) for c in carries)


def _compared(sources: SourceTexts, nodes: list[Node], carry: OlderEdge) -> bool:
    producer, consumer = node_with(nodes, carry.producer), node_with(nodes, carry.consumer)
    if producer is None or consumer is None or not consumer.op.startswith(_COMPARING):
        return False
    at = innermost_user(consumer.stack)
    if at is None:
        return False
    makers = _makers(sources, producer)
    # What this function itself has kept the old value as is the old value, and not the new one beside it.
    here = [f for f in producer.stack if (f.file, f.function) == (at.file, at.function)]
    kept = {name for f in here for name in bound_names(sources, f)}
    others = [n for n in _operands(sources, at) if ast.unparse(n) not in kept]
    return any(_called_in(sources, at, n) & makers for n in others)


def _makers(sources: SourceTexts, producer: Node) -> set[str]:
    """The functions that computed the old value, by their last name, and the call of the user's own line."""
    frames = [f for f in producer.stack if f.user]
    found = {f.function.rpartition(".")[2] for f in frames}
    for f in frames:
        node = _node_at(sources, f)
        if isinstance(node, ast.Call):
            found |= {_callee(node)}
    return found - {"<module>", "__init__", "main", ""}


def _operands(sources: SourceTexts, at: Frame) -> list[ast.expr]:
    node = _node_at(sources, at)
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []


def _node_at(sources: SourceTexts, frame: Frame) -> ast.expr | None:
    from graphdoc.source.module import Source
    from graphdoc.source.places import Place

    text = sources.get(frame.file)
    return Source(frame.file, text).node_expression(Place.of(frame)) if text is not None and frame.column else None


def _called_in(sources: SourceTexts, at: Frame, value: ast.expr) -> set[str]:
    """The functions called in an expression, and in what was assigned to the names that it reads."""
    root = tree(sources, at.file)
    if root is None:
        return set()
    behind = made_of(function_around(root, at.line) or root, value, most=MOST_ASSIGNMENTS)
    return {_callee(n) for e in behind.expressions for n in ast.walk(e) if isinstance(n, ast.Call)}


def _callee(call: ast.Call) -> str:
    return last_word(call.func)
