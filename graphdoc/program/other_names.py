"""Other names of a tensor that is written in place: who reads one of them later sees what was written."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import function_around, is_name, tree
from graphdoc.program.container_entries import statements
from graphdoc.source.paths import covers, pairs, targets_of, without_subscripts


def read_by_another_name(sources: SourceTexts, frame: Frame | None, name: str) -> str:
    """The name that is the same tensor as ``name`` at this place (``h = x`` or ``res = h`` above) and is read behind it
    in the same function, or ``name`` itself where the result of the write goes by another one; empty where there is
    none. Statements are taken in the order of their lines."""
    root = tree(sources, frame.file) if frame is not None else None
    scope = function_around(root, frame.line) if root is not None and frame is not None else None
    if frame is None or scope is None or not name.isidentifier():
        return ""
    others: dict[str, None] = {}
    for statement in sorted(statements(scope), key=lambda s: s.lineno):
        if statement.lineno >= frame.line:
            break
        if isinstance(statement, ast.AugAssign):
            continue  # in place, for a tensor
        for target in targets_of(statement):
            if is_name(target, name):
                others = {}
            elif isinstance(target, ast.Name):
                others.pop(target.id, None)
        for target, value in pairs(statement):
            if is_name(target, name) and isinstance(value, ast.Name):
                others[value.id] = None
            elif is_name(value, name) and isinstance(target, ast.Name):
                others[target.id] = None
    writing = [s for s in statements(scope) if isinstance(s, ast.Assign) and covers(s, frame.line)]
    if any(not any(is_name(without_subscripts(t), name) for t in targets_of(s)) for s in writing):
        others[name] = None  # the result goes by another name than what was written: ``h = act(x)``
    return next((other for other in others if _read_behind(scope, frame, other)), "")


def _read_behind(scope: ast.AST, frame: Frame, name: str) -> bool:
    """Whether a name is read behind a place before it is bound anew."""
    end = frame.end_line or frame.line
    uses = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and n.lineno > end]
    bound = min((n.lineno for n in uses if isinstance(n.ctx, ast.Store)), default=None)
    return any(isinstance(n.ctx, ast.Load) and (bound is None or n.lineno <= bound) for n in uses)
