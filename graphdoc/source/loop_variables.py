"""What the variable of a loop runs over."""

from __future__ import annotations

import ast


def iterated(target: ast.expr, iterable: ast.expr, name: str) -> ast.expr | None:
    """What a loop variable runs over: its own argument of ``zip`` or ``enumerate``, else the whole iterable."""
    if isinstance(target, ast.Name):
        return iterable if target.id == name else None
    if not isinstance(target, ast.Tuple | ast.List) or any(isinstance(e, ast.Starred) for e in target.elts):
        return None
    if not isinstance(iterable, ast.Call) or not isinstance(iterable.func, ast.Name):
        return None
    given = iterable.args
    if any(isinstance(a, ast.Starred) for a in given):
        return None
    if iterable.func.id == "enumerate" and len(target.elts) == 2 and given:
        return iterated(target.elts[1], given[0], name)
    if iterable.func.id != "zip" or len(given) != len(target.elts):
        return None
    return next((f for t, g in zip(target.elts, given, strict=True) if (f := iterated(t, g, name)) is not None), None)
