"""Names that stand for a plain list or dictionary, as far as the source tells."""

from __future__ import annotations

import ast

from graphdoc.source.module import Function, Source
from graphdoc.source.paths import pairs
from graphdoc.source.scopes import own_nodes, parameters, scope_of


def is_list(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists written out: a display, a comprehension, ``list(…)``.

    An item of such a list is a value of its own; to assign one writes into no tensor.
    """
    makers = _makers(source, node)
    return bool(makers) and all(_makes_list(m) for m in makers)


def is_container(source: Source, node: ast.expr) -> bool:
    """Whether all that a name is bound to in its scope are lists or dictionaries written out."""
    makers = _makers(source, node)
    return bool(makers) and all(_makes_list(m) or _makes_dictionary(m) for m in makers)


def _makers(source: Source, node: ast.expr) -> list[ast.expr]:
    """The values of all bindings of a name in its scope; none where one of them is no plain assignment."""
    scope = scope_of(source, node)
    if not isinstance(node, ast.Name) or scope is None:
        return []
    if isinstance(scope, Function) and node.id in parameters(scope):
        return []
    stored = [n for n in own_nodes(scope) if isinstance(n, ast.Name) and n.id == node.id and _is_bound(n)]
    makers = [
        value
        for s in own_nodes(scope)
        if isinstance(s, ast.Assign)
        for bound, value in pairs(s)
        if any(bound is n for n in stored)
    ]
    return makers if len(makers) == len(stored) else []


def _is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)


def _makes_list(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Add):
        return _makes_list(value.left) or (isinstance(value.op, ast.Mult) and _makes_list(value.right))
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("list", "sorted")
    return isinstance(value, ast.List | ast.ListComp)


def _makes_dictionary(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in ("dict", "defaultdict", "OrderedDict")
    return isinstance(value, ast.Dict | ast.DictComp)
