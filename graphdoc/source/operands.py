"""What a function of numbers is given, read off its expression: the argument, the divisor, the base."""

from __future__ import annotations

import ast


def parsed(code: str) -> ast.expr | None:
    """An expression's syntax tree, or None."""
    try:
        return ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def operand_of(node: ast.expr) -> ast.expr | None:
    """What a function is given (``x`` of ``torch.log(x)``, ``x.log()``), a division's divisor, a power's base."""
    if isinstance(node, ast.BinOp):
        return node.right if isinstance(node.op, ast.Div) else node.left if isinstance(node.op, ast.Pow) else None
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Attribute) and not is_module(function.value):
        return function.value
    first = node.args[0] if node.args else None
    return None if isinstance(first, ast.Starred) else first


def is_module(node: ast.expr) -> bool:
    """Whether an expression reads as a module of functions: ``torch``, ``torch.nn.functional``, ``F``."""
    text = ast.unparse(node)
    return text in ("F", "nn", "math", "functional", "np") or text.split(".")[0] == "torch"
