"""What is a tensor in one case only: ``max(0, x)``, ``x if c else 0``, an attribute of what may be None."""

from __future__ import annotations

import ast

from graphdoc.source.module import Source


def tensor_part(node: ast.expr) -> ast.expr | None:
    """Of an expression that may be a plain number, the one part that is the tensor in the other case; None where it
    has several, or where nothing says that it may be a number.
    """
    parts: list[ast.expr] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
        if node.keywords or len(node.args) != 2:
            return None
        parts = node.args
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    others = [p for p in parts if not is_number(p)]
    return others[0] if parts and len(others) == 1 else None


def is_number(node: ast.expr) -> bool:
    """Whether an expression is a number written there."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float | complex | type(None))


def may_be_number(source: Source, path: str, at: ast.AST) -> bool:
    """Whether an assignment of a path that reaches a statement gives it a number in one case."""
    function = source.node_function(at)
    loop = source.node_loop(at)
    inside = source.node_assignments(path, loop) if loop is not None else []
    reaching = inside or source.node_assignments(path, function)
    values = [getattr(s, "value", None) for s in reaching]
    return any(isinstance(v, ast.expr) and (tensor_part(v) is not None or is_number(v)) for v in values)


def may_be_none(source: Source, path: ast.expr, at: ast.AST) -> str:
    """The variable that an attribute path starts from, where an assignment of the same scope gives it None in one case
    (``buffer = None``); empty where none does.
    """
    root = path
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if root is path or not isinstance(root, ast.Name):
        return ""
    values = [getattr(s, "value", None) for s in source.node_assignments(root.id, source.node_function(at))]
    nothing = (isinstance(v, ast.Constant) and v.value is None for v in values)
    return root.id if len(values) > 1 and any(nothing) else ""
