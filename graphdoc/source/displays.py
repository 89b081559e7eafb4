"""Names that stand for a plain list, as far as the source tells."""

from __future__ import annotations

import ast

from graphdoc.source.module import Function, Source
from graphdoc.source.paths import targets_of
from graphdoc.source.scopes import own_nodes, parameters, scope_of


def is_list(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists written out: a display, a comprehension, ``list(…)``.

    An item of such a list is a value of its own; to assign one writes into no tensor.
    """
    scope = scope_of(source, node)
    if not isinstance(node, ast.Name) or scope is None:
        return False
    if isinstance(scope, Function) and node.id in parameters(scope):
        return False
    stored = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == node.id and _is_bound(n)]
    makers = [
        s.value
        for s in own_nodes(scope)
        if isinstance(s, ast.Assign) and any(t is n for t in targets_of(s) for n in stored)
    ]
    return bool(stored) and len(makers) == len(stored) and all(_makes_list(m) for m in makers)


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)


def _makes_list(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Add):
        return _makes_list(value.left) or (isinstance(value.op, ast.Mult) and _makes_list(value.right))
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("list", "sorted")
    return isinstance(value, ast.List | ast.ListComp)
