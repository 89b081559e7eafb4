"""Reduce a loss to one number: ``loss.backward()`` → ``loss.mean().backward()``, ``grad(u, x)`` → ``grad(u.sum(), x)``.

Args:
    place: the call of backward or of autograd.grad, or the loss expression.
    method: ``"mean"`` (default) or ``"sum"``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.places import Edit

KIND = "reduce_loss"


_CALLS = {"backward": ("tensors", "grad_tensors", 1), "grad": ("outputs", "grad_outputs", 2)}
"""For each function of ``torch.autograd``: what is differentiated, what weighs its elements, and where that stands."""


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    method = str(args.get("method", "mean"))
    edits: list[Edit] = []
    for part in _differentiated(node):
        edits += convert_expression(source, part, "tensor", method)
    return edits


def _differentiated(node: ast.expr) -> list[ast.expr]:
    """What a call differentiates; the expression itself where it is no such call."""
    if not isinstance(node, ast.Call):
        return [node]
    path = ast.unparse(node.func).split(".")
    if path[-1] == "backward" and isinstance(node.func, ast.Attribute) and path[-2:-1] != ["autograd"]:
        if node.args or any(k.arg == "gradient" for k in node.keywords):
            raise CannotFix("backward is given a gradient for each element")
        return [node.func.value]
    if path[-1] not in _CALLS or (len(path) > 1 and path[-2] != "autograd"):
        return [node]
    name, weights, position = _CALLS[path[-1]]
    if len(node.args) > position or any(k.arg in (weights, None) for k in node.keywords):
        raise CannotFix("the call weighs the elements itself")
    given = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == name), None)
    if given is None or isinstance(given, ast.Starred):
        raise CannotFix("what is differentiated is not written at this call")
    return given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
