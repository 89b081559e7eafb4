"""Values that are computed from a leaf made in the same expression: ``torch.exp(nn.Parameter(...))``."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import call_at
from graphdoc.program.spans import innermost_user
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place


def makes_parameter(sources: SourceTexts, nodes: list[Node], carries: list[OlderEdge]) -> bool:
    """Whether any of the values comes straight from an operation around ``Parameter(...)``.

    Such a parameter has no name and is in no optimizer, and yet it was written to be trained.
    """
    producers = (node_with(nodes, c.producer) for c in carries)
    values = (_expression(sources, innermost_user(p.stack)) for p in producers if p is not None)
    inner = (call for value in values if value is not None for call in _calls_inside(value))
    return any(last_word(call.func) == "Parameter" for call in inner)


def _expression(sources: SourceTexts, frame: Frame | None) -> ast.expr | None:
    """The expression that stands exactly at a frame, else the call there."""
    text = sources.get(frame.file) if frame is not None else None
    if frame is None or text is None:
        return None
    return Source(frame.file, text).node_expression(Place.of(frame)) or call_at(sources, frame)


def leaf_inside(value: ast.expr) -> bool:
    """Whether an expression makes one tensor that is to learn and computes on with it: what it gives is no leaf."""
    return sum(map(_makes_leaf, _calls_inside(value))) == 1


def _calls_inside(value: ast.expr) -> list[ast.Call]:
    return [n for n in ast.walk(value) if isinstance(n, ast.Call) and n is not value]


def _makes_leaf(call: ast.Call) -> bool:
    flagged = any(
        k.arg == "requires_grad" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords
    )
    return flagged or last_word(call.func) in ("Parameter", "requires_grad_")
