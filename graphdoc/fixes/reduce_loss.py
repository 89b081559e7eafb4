"""Reduce a loss to one number before backward: ``loss.backward()`` → ``loss.mean().backward()``.

Args:
    place: the call of backward, or the loss expression.
    method: ``"mean"`` (default) or ``"sum"``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, expression, required
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.places import Edit

KIND = "reduce_loss"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
        if node.args or any(k.arg == "gradient" for k in node.keywords):
            raise CannotFix("backward is given a gradient for each element")
        node = node.func.value
    return convert_expression(source, node, "tensor", str(args.get("method", "mean")))
