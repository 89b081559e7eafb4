"""Give a gradient that a custom Function returns the shape of its input: ``return w`` → ``return w.unsqueeze(0)``.

Args:
    place: the ``return`` statement of the backward.
    index: which of the returned values, from 0.
    steps: the method calls that follow it, such as ``["squeeze(1)"]`` or ``["t()"]``.
    product: optional; True where the value has to be a product with a transposed factor, whose order the shape shows.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import write
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

KIND = "fit_gradient"

_PRODUCTS = frozenset({"mm", "matmul", "bmm"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    index = int(required(args, "index"))
    value = _returned(node, index)
    written = _written(source, node, value)
    if args.get("product") and not _is_product(written):
        raise CannotFix("the shape alone does not tell how the gradient is to be turned")
    calls = "".join(f".{step}" for step in required(args, "steps"))
    return [write(source, value, f"{{gradient}}{calls}", gradient=value)]


def _returned(node: ast.AST, index: int) -> ast.expr:
    value = node.value if isinstance(node, ast.Return) else None
    if isinstance(value, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in value.elts):
        found = value.elts[index] if index < len(value.elts) else None
    else:
        found = value if index == 0 and not isinstance(value, ast.Tuple) else None
    if found is None or isinstance(found, ast.IfExp | ast.Constant):
        raise CannotFix("the gradient of this input cannot be read in the return statement")
    return found


def _written(source: Source, node: ast.AST, value: ast.expr) -> ast.expr:
    """What computes the value: itself, or the one assignment to its name; never one that may be None."""
    function = source.node_function(node)
    if not isinstance(value, ast.Name) or function is None:
        return value
    bound = [
        n.value
        for n in ast.walk(function)
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == value.id for t in n.targets)
    ]
    if any(isinstance(b, ast.Constant | ast.IfExp) for b in bound):
        raise CannotFix(f"{value.id} may be None here")
    return bound[0] if len(bound) == 1 else value


def _is_product(value: ast.expr) -> bool:
    """Whether it multiplies matrices and turns one of the factors: ``x.t() @ g``, ``torch.mm(x.T, g)``."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        factors = [value.left, value.right]
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _PRODUCTS:
        factors = [value.func.value, *value.args]
    else:
        return False
    return any(_turned(f) for f in factors)


def _turned(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else value
    return isinstance(called, ast.Attribute) and called.attr in ("t", "T", "mT", "transpose")
