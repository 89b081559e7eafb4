"""The tensor that is trained becomes a leaf: it requires gradients after the operation, not before it.

``torch.randn(3, requires_grad=True) * 0.1`` → ``(torch.randn(3) * 0.1).requires_grad_(True)``;
``nn.Parameter(x).to(device)`` → ``nn.Parameter(x.to(device))``.

Args:
    place: the whole expression that is bound to the name.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import copied, drop_arguments, write
from graphdoc.source.places import Edit

KIND = "make_leaf"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, whole = expression(sources, required(args, "place"))
    inner = [n for n in ast.walk(whole) if isinstance(n, ast.Call) and n is not whole and _requires(n)]
    if len(inner) != 1:
        raise CannotFix("no single tensor inside the expression is made with requires_grad")
    made = inner[0]
    if last_name(made) in ("Parameter", "Buffer"):
        if len(made.args) != 1 or made.keywords:
            raise CannotFix("the parameter is made with further arguments")
        around = write(source, whole, "{parameter}({whole})", parameter=copied(source, made.func), whole=whole)
        return [write(source, made, "{value}", value=made.args[0]), around]
    edits = drop_arguments(source, made, lambda _, k: k == "requires_grad")
    if isinstance(made.func, ast.Attribute) and made.func.attr == "requires_grad_":
        edits = [write(source, made, "{tensor}", tensor=made.func.value)]
    return [*edits, write(source, whole, "{whole}.requires_grad_(True)", whole=whole)]


def _requires(node: ast.Call) -> bool:
    if last_name(node) in ("Parameter", "requires_grad_"):
        return True
    flag = next((k.value for k in node.keywords if k.arg == "requires_grad"), None)
    return isinstance(flag, ast.Constant) and flag.value is True
