"""Take a tensor out of the graph before it becomes an array: ``x.numpy()`` → ``x.detach().cpu().numpy()``.

Args:
    place: the call of ``numpy()``, of ``np.asarray(x)`` (``float(x)`` …), or the tensor expression itself.
    mode: ``"numpy"`` (default) or ``"item"`` for a number.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.edits import write
from graphdoc.source.places import Edit

KIND = "to_numpy"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    if args.get("mode") == "item":
        return convert_expression(source, node, "tensor", "item")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy":
        inner = node.func.value
        methods = []
        step: ast.expr = inner
        while isinstance(step, ast.Call) and isinstance(step.func, ast.Attribute):
            methods.append(step.func.attr)
            step = step.func.value
        if "detach" in methods:
            raise CannotFix("the tensor is already detached there")
        if methods[:1] == ["cpu"] and isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            tensor = inner.func.value
            return [write(source, tensor, "{it}.detach()", it=tensor)]
        return [write(source, inner, "{it}.detach().cpu()", it=inner)]
    if isinstance(node, ast.Call) and last_name(node) in ("asarray", "array", "from_dlpack") and node.args:
        node = node.args[0]
    return convert_expression(source, node, "tensor", "detach().cpu().numpy")
