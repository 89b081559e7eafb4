"""Which wrapper a call has gone past: ``model`` for ``model.module(x)``, read off the source."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import assignments, call_at, dotted

_DEPTH = 4
"""Names that stand for one another."""


def wrapper_past(sources: SourceTexts, frame: Frame) -> str:
    """What would have to be called instead; empty where the source does not show it, or a method is called.

    Args:
        frame: the call, with its columns.
    """
    call = call_at(sources, frame)
    return _wrapped(sources, frame, call.func, _DEPTH) if call is not None and frame.column > 0 else ""


def module_called(sources: SourceTexts, frame: Frame) -> str:
    """The wrapped module of which a method or a part is called: ``model.module`` of ``model.module.loss(x)``."""
    call = call_at(sources, frame)
    node = call.func if call is not None and frame.column > 0 else None
    while isinstance(node, ast.Attribute) and not _wrapped(sources, frame, node, _DEPTH):
        node = node.value
    return dotted(node) if node is not None and _wrapped(sources, frame, node, _DEPTH) else ""


def _wrapped(sources: SourceTexts, frame: Frame, node: ast.expr, depth: int) -> str:
    """The path of the wrapper whose module this expression is."""
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return dotted(node.value)
    if isinstance(node, ast.Call):
        name = dotted(node.func).rpartition(".")[2]
        return dotted(node.args[0]) if name.startswith("unwrap") and len(node.args) == 1 else ""
    if isinstance(node, ast.Name) and depth:
        bound = assignments(sources, frame, node.id)
        return _wrapped(sources, bound[0][0], bound[0][1], depth - 1) if len(bound) == 1 else ""
    return ""
