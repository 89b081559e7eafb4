"""Rows of a buffer as the source spells them: ``v[i]``, ``v[i][t]``, ``v[i, t]`` with the counter of a loop."""

from __future__ import annotations

import ast

from graphdoc.source.module import Source


def first_index(node: ast.Subscript) -> ast.expr:
    """``i`` of ``values[i][t]``, ``values[i, t]`` and ``values[i]``."""
    while isinstance(node.value, ast.Subscript):
        node = node.value
    return node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice


def is_full(index: ast.expr) -> bool:
    """Whether an index takes all there is: ``:`` or ``...``."""
    if isinstance(index, ast.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, ast.Constant) and index.value is Ellipsis


def counts(source: Source, name: ast.Name) -> bool:
    """Whether a name is the counter of a loop around it: of ``range(…)``, or the first of ``enumerate(…)``."""
    for above in source.node_ancestors(name):
        loops = [above] if isinstance(above, ast.For) else getattr(above, "generators", [])
        for loop in loops:
            called = (
                loop.iter.func.id if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) else ""
            )
            target = loop.target
            if called == "enumerate" and isinstance(target, ast.Tuple):
                target = target.elts[0]
            elif called != "range":
                continue
            if isinstance(target, ast.Name) and target.id == name.id:
                return True
    return False
