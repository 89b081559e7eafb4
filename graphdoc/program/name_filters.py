"""Conditions on a parameter's name that can be answered from the source: ``n.startswith("body")``, ``"body" in n``."""

from __future__ import annotations

import ast

from graphdoc.program.bindings import is_name


def lets_through(test: ast.expr, variable: str, name: str) -> bool | None:
    """Whether this condition on the string ``variable`` holds for ``name``; None where the source does not tell."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = lets_through(test.operand, variable, name)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [lets_through(value, variable, name) for value in test.values]
        if any(part is None for part in parts):
            return None
        return all(parts) if isinstance(test.op, ast.And) else any(parts)
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and len(test.args) == 1:
        text = _text(test.args[0])
        if text is None or not is_name(test.func.value, variable) or test.func.attr not in ("startswith", "endswith"):
            return None
        return name.startswith(text) if test.func.attr == "startswith" else name.endswith(text)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and is_name(test.comparators[0], variable):
        text = _text(test.left)
        if text is not None and isinstance(test.ops[0], ast.In | ast.NotIn):
            return (text in name) is isinstance(test.ops[0], ast.In)
    return None


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
