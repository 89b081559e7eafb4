"""What a function of numbers is given, read off its expression: the argument, the divisor, the base."""

from __future__ import annotations

import ast


def parsed(code: str) -> ast.expr | None:
    """An expression's syntax tree, or None."""
    try:
        return ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


_LATER: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("xlogy", "xlog1py"), (1, ("other", "target"))),
    **dict.fromkeys(("div", "divide", "true_divide", "floor_divide", "fmod", "remainder"), (1, ("other",))),
    "addcdiv": (2, ("tensor2",)),
}
"""Functions whose operand is a later argument: its number, and the keywords that it may have. A division that stands in
another function of PyTorch's is not in its words."""
_AFTER_A_NUMBER = ("polygamma",)
"""Functions whose tensor stands behind a number; their methods have it in front."""
_DIVIDES = (ast.Div, ast.Mod, ast.FloorDiv)


def position_of(operation: str) -> int:
    """Which of a function's tensors is its operand: the second for ``xlogy`` and a division."""
    return _LATER.get(operation, (0,))[0]


def operand_of(node: ast.expr, operation: str = "") -> ast.expr | None:
    """What a function is given (``x`` of ``torch.log(x)``, ``x.log()``), a division's divisor, a power's base.

    ``operation`` is the function of PyTorch's that ran there, which has its operand elsewhere perhaps.
    """
    if isinstance(node, ast.BinOp):
        return node.right if isinstance(node.op, _DIVIDES) else node.left if isinstance(node.op, ast.Pow) else None
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    method = isinstance(function, ast.Attribute) and not is_module(function.value) and not _is_self(function.value)
    if operation in _LATER:
        own = name_of(node) in _LATER
        if not own and operation not in ("xlogy", "xlog1py"):
            return None
        number, keywords = _LATER[operation]
        given = [*([function.value] if isinstance(function, ast.Attribute) and method and own else []), *node.args]
        named = next((k.value for k in node.keywords if k.arg in keywords), None)
        chosen = named or (given[number] if len(given) > number else None)
        return None if any(isinstance(a, ast.Starred) for a in node.args) else chosen
    if isinstance(function, ast.Attribute) and method:
        return function.value
    first = next(iter(node.args[name_of(node) in _AFTER_A_NUMBER :]), None)
    return None if isinstance(first, ast.Starred) else first


def name_of(node: ast.expr | None) -> str:
    """The last name of the function that is called: ``log`` of ``torch.log(x)`` and ``x.log_()``."""
    function = node.func if isinstance(node, ast.Call) else None
    name = function.attr if isinstance(function, ast.Attribute) else ""
    return (function.id if isinstance(function, ast.Name) else name).strip("_")


def _is_self(node: ast.expr) -> bool:
    """Whether a call ``self.loss(x)`` is one of the object's own: its receiver is no tensor."""
    return isinstance(node, ast.Name) and node.id == "self"


def is_module(node: ast.expr) -> bool:
    """Whether an expression reads as a module of functions: ``torch``, ``torch.nn.functional``, ``F``."""
    text = ast.unparse(node)
    return text in ("F", "nn", "math", "functional", "np", "special", "linalg") or text.split(".")[0] == "torch"
