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
from graphdoc.source.edits import drop_arguments
from graphdoc.source.module import Source
from graphdoc.source.paths import binding
from graphdoc.source.places import Edit
from graphdoc.source.tokens import grouping, outer_span

KIND = "make_leaf"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, whole = expression(sources, required(args, "place"))
    inner = [n for n in ast.walk(whole) if isinstance(n, ast.Call) and n is not whole and _requires(n)]
    if len(inner) != 1:
        raise CannotFix("no single tensor inside the expression is made with requires_grad")
    made = inner[0]
    start, end = source.span(whole)
    if last_name(made) in ("Parameter", "Buffer"):
        if len(made.args) != 1 or made.keywords:
            raise CannotFix("the parameter is made with further arguments")
        return _parameter_around(source, whole, made)
    edits = drop_arguments(source, made, lambda _, k: k == "requires_grad")
    if isinstance(made.func, ast.Attribute) and made.func.attr == "requires_grad_":
        edits = [Edit(source.file, outer_span(source, made.func.value)[1], source.span(made)[1], "")]
    if binding(whole) >= 13:
        return [*edits, Edit(source.file, end, end, ".requires_grad_(True)")]
    pairs = grouping(source, whole)
    if pairs:
        return [*edits, Edit(source.file, pairs[0][1], pairs[0][1], ".requires_grad_(True)")]
    return [Edit(source.file, start, start, "("), *edits, Edit(source.file, end, end, ").requires_grad_(True)")]


def _parameter_around(source: Source, whole: ast.expr, made: ast.Call) -> list[Edit]:
    name = source.segment(made.func)
    start, end = source.span(whole)
    first, last = source.span(made)
    value = made.args[0]
    low, high = outer_span(source, value)
    loose = binding(value) < 13 and (low, high) == source.span(value)
    return [
        Edit(source.file, start, start, f"{name}("),
        Edit(source.file, first, low, "(" if loose else ""),
        Edit(source.file, high, last, ")" if loose else ""),
        Edit(source.file, end, end, ")"),
    ]


def _requires(node: ast.Call) -> bool:
    if last_name(node) in ("Parameter", "requires_grad_"):
        return True
    flag = next((k.value for k in node.keywords if k.arg == "requires_grad"), None)
    return isinstance(flag, ast.Constant) and flag.value is True
