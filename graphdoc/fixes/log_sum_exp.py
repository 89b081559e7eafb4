"""Take the logarithm of a sum of exponentials in one function, which leaves no range.

``s = (w * x.exp()).sum(1)`` with ``torch.log(s)`` behind it → ``s = torch.logsumexp(torch.log(w) + x, dim=1)``, ``s``.

Args:
    place: the exponential.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import Piece, rename, write
from graphdoc.source.module import Source
from graphdoc.source.operands import operand_of
from graphdoc.source.places import Edit

KIND = "log_sum_exp"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    inner = operand_of(node)
    total, dim = _sum_around(source, node)
    if inner is None or total is None or dim is None:
        raise CannotFix("the exponentials are not summed in the same expression")
    summed = total.func.value if isinstance(total.func, ast.Attribute) else node
    if ast.unparse(summed) == "torch":
        summed = total.args[0]
    weight = _weight(summed, node)
    exponent, parts = "{inner}", dict[str, Piece](inner=inner, dim=dim)
    softmax: ast.expr | None = None
    if summed is not node:
        if weight is None:
            raise CannotFix("the exponential is not simply weighted and summed")
        softmax = _softmax_behind(source, weight)
        # The logarithm of a softmax has a function of its own, which does not underflow.
        exponent = ("torch.log({weight})" if softmax is None else "{weight}") + " + {inner}"
        parts["weight"] = weight
    new = f"torch.logsumexp({exponent}, dim={{dim}})"
    outer = source.parents.get(total)
    logarithm = _logarithm(outer, total)
    also = [rename(source, softmax, "log_softmax")] if softmax is not None else []
    if logarithm is not None:
        return [write(source, logarithm, new, **parts), *also]
    if not isinstance(outer, ast.Assign) or len(outer.targets) != 1 or not isinstance(outer.targets[0], ast.Name):
        raise CannotFix("the logarithm of the sum is not taken where it can be seen")
    name = outer.targets[0].id
    function = source.node_function(outer) or source.tree
    uses = [
        n for n in ast.walk(function or outer) if isinstance(n, ast.Name) and n.id == name and n is not outer.targets[0]
    ]
    logs = [_logarithm_of_name(source, n) for n in uses]
    if not uses or any(log is None for log in logs):
        raise CannotFix(f"`{name}` is used for something else than its logarithm")
    logged = [write(source, log, name) for log in logs if log is not None]
    return [write(source, total, new, **parts), *also, *logged]


def _softmax_behind(source: Source, weight: ast.expr) -> ast.expr | None:
    """The function of ``w = F.softmax(…)``, where ``w`` is read nowhere else."""
    function = source.node_function(weight)
    if not isinstance(weight, ast.Name) or function is None:
        return None
    named = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == weight.id and n is not weight]
    owner = source.parents.get(named[0]) if len(named) == 1 else None
    value = owner.value if isinstance(owner, ast.Assign) and len(owner.targets) == 1 else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "softmax":
        return value.func
    return None


def _sum_around(source: Source, node: ast.expr) -> tuple[ast.Call | None, ast.expr | None]:
    """The sum over one dimension around the exponential, with at most a product between them."""
    at: ast.AST | None = source.parents.get(node)
    for _ in range(4):
        if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) and at.func.attr == "sum":
            given = [a for a in at.args if ast.unparse(at.func.value) != "torch"] or at.args[1:]
            given += [k.value for k in at.keywords if k.arg == "dim"]
            return (at, given[0]) if len(given) == 1 and len(at.keywords) <= 1 else (None, None)
        if not isinstance(at, ast.BinOp | ast.Attribute):
            break
        at = source.parents.get(at)
    return None, None


def _weight(summed: ast.expr, node: ast.expr) -> ast.expr | None:
    if not isinstance(summed, ast.BinOp) or not isinstance(summed.op, ast.Mult):
        return None
    return summed.left if summed.right is node else summed.right if summed.left is node else None


def _logarithm(outer: ast.AST | None, inner: ast.AST) -> ast.Call | None:
    """``outer`` where it is ``torch.log(inner)``."""
    good = isinstance(outer, ast.Call) and ast.unparse(outer.func) == "torch.log" and outer.args == [inner]
    return outer if good and isinstance(outer, ast.Call) else None


def _logarithm_of_name(source: Source, name: ast.Name) -> ast.Call | None:
    outer = source.parents.get(name)
    if isinstance(outer, ast.Attribute) and outer.attr == "log":
        call = source.parents.get(outer)
        return call if isinstance(call, ast.Call) and not call.args else None
    return _logarithm(outer, name)
