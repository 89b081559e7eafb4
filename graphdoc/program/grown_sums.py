"""Sums of losses: what takes a term into one, and whether backward is called on nothing but a sum that goes on."""

from __future__ import annotations

import ast

from graphdoc.evidence import Folded, Frame, Holder, Node, OlderEdge, SourceTexts
from graphdoc.program.spans import innermost_user
from graphdoc.program.value_reads import grows_at, read_in
from graphdoc.source.module import Source
from graphdoc.source.paths import key
from graphdoc.source.places import Place

_ADDING = ("Add", "Stack", "Cat")
"""Nodes through which a term goes into a sum."""

_OF_A_SUM = ("Div", "Mul", "Neg", "Sum", "Mean", "View", "Reshape", "Squeeze", "Unsqueeze", "Stack")
"""Nodes behind which a sum is still one: what is done to all of its terms alike."""


def takes_term(sources: SourceTexts, node: Node) -> bool:
    """Whether a node takes its older input into a sum as a term.

    A difference only where its statement adds to what it binds (``loss = loss - log_prob``): of two losses, it is what
    has changed between them.
    """
    return node.op.startswith(_ADDING) or (node.op.startswith("Sub") and grows(sources, node))


def grows(sources: SourceTexts, node: Node) -> bool:
    """Whether the statement that made the node adds to what it binds."""
    frame = innermost_user(node.stack)
    return frame is not None and grows_at(sources, frame)


def is_sum_that_goes_on(sources: SourceTexts, folded: Folded | None, carry: OlderEdge, consumer: Node | None) -> bool:
    """Whether the failing loss is a sum, up to a factor, and the older value is what that sum came to before.

    ``consumer`` is the node that takes the older value in.

    A state of one number that each round adds to is no such sum: the loss makes more of it than a mean.
    """
    if consumer is None or not carry.recurrent or not consumer.op.startswith("Add"):
        return False
    return grows(sources, consumer) and is_scaled(folded, carry.consumer)


def is_scaled(folded: Folded | None, node: int) -> bool:
    """Whether nothing but scaling lies between the root of the failing graph and the expression of a node."""
    home = folded.homes[node] if folded is not None and 0 <= node < len(folded.homes) else -1
    if folded is None or home < 0 or folded.root < 0:
        return False
    part, seen = folded.root, set[int]()
    while part != home:
        below = {to for start, to, _ in folded.edges if start == part}
        scaling = all(op.startswith(_OF_A_SUM) for op in folded.parts[part].ops)
        if part in seen or len(below) != 1 or not scaling:
            return False
        seen.add(part)
        part = below.pop()
    return True


def is_divided(sources: SourceTexts, frame: Frame | None, holders: list[Holder]) -> bool:
    """Whether a division at a place divides the value that these names hold, and does not divide by it. Where a package
    divides, it is the loss that it was given."""
    if frame is None or not frame.user:
        return frame is not None
    source = Source(frame.file, sources.get(frame.file, ""))
    node = source.node_expression(Place.of(frame))
    names = {h.base for h in holders}
    statement = source.node_statement(Place.of(frame))
    if isinstance(statement, ast.AugAssign):
        return key(statement.target) in names and not read_in(statement.value, names)
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not read_in(node.right, names)
