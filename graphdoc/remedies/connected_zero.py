"""A zero that has a graph, for a branch in which a loss is a constant: of what the other branch would make it of."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.spans import place, where
from graphdoc.source.paths import covers, key, targets_of

NOTE = "Where no term is added the gradients are zero, and the optimizer steps with them."


def of_other_branch(sources: SourceTexts, start: Frame, value: ast.expr, wanted: str) -> list[Remedy]:
    """Zero times the expression by which the other branch of an ``if`` binds the same name; none where that reads what
    only this branch has."""
    root = bindings.tree(sources, start.file)
    around = [n for n in ast.walk(root) if isinstance(n, ast.If) and covers(n, start.line)] if root is not None else []
    for branch in reversed(around):
        here, other = branch.body, branch.orelse
        if not any(covers(s, start.line) for s in here):
            here, other = other, here
        bound = [s for s in other if isinstance(s, ast.Assign) and key(s.targets[0]) == wanted]
        if len(bound) != 1 or not any(covers(s, start.line) for s in here):
            continue
        made = bound[0].value
        before = {key(t) for s in other[: other.index(bound[0])] for t in targets_of(s)}
        if before & {n.id for n in ast.walk(made) if isinstance(n, ast.Name)} or not isinstance(made, ast.Call):
            return []
        text = ast.unparse(made)
        args = {"place": place(bindings.frame_of(sources, start.file, value)), "name": text}
        return [
            Remedy("zero_of_output", f"start `{wanted}` as `{text} * 0.0`, at {where(start)}", "unsafe", NOTE, args)
        ]
    return []


def is_no_tensor(function: ast.AST, name: str) -> bool:
    """Whether a function takes an argument apart: unpacks it, or reads an entry of it by a word."""
    for n in ast.walk(function):
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Constant) and isinstance(n.slice.value, str):
            apart = key(n.value) == name
        elif isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Tuple | ast.List):
            apart = isinstance(n.value, ast.Name) and n.value.id == name
        else:
            continue
        if apart:
            return True
    return False
