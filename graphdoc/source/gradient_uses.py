"""What a statement does with a gradient that it reads: takes its value, scales it, or puts something into it."""

from __future__ import annotations

import ast
from enum import Enum

from graphdoc.source.module import Source
from graphdoc.source.paths import is_path


class Use(Enum):
    """What becomes of ``p.grad`` in its statement."""

    VALUE = "its value is taken: ``total += p.grad.norm()``"
    SCALED = "what it is becomes something else, and zeros would stay zeros: ``p.grad.data.clamp_(-1, 1)``"
    GIVEN = "something is put into it, or added: ``p.grad.data = g``, ``p.grad += g``"


_SCALING = frozenset({"mul_", "div_", "clamp_", "clip_", "clamp_min_", "clamp_max_", "zero_", "nan_to_num_", "neg_"})
_SCALING_TYPES = ast.Mult | ast.Div


def use_of(source: Source, node: ast.expr) -> Use | None:
    """How the statement around ``p.grad`` uses it; None where it cannot be said, or where naming ``p`` has effects."""
    if not isinstance(node, ast.Attribute) or not is_path(node.value):
        return None
    top, method = _chain(source, node)
    above = source.parents.get(top)
    if isinstance(above, ast.Expr) and method.endswith("_") and not method.endswith("__"):
        return Use.SCALED if method in _SCALING else Use.GIVEN
    if isinstance(above, ast.AugAssign) and above.target is top:
        return Use.SCALED if isinstance(above.op, _SCALING_TYPES) else Use.GIVEN
    if isinstance(getattr(top, "ctx", ast.Load()), ast.Load):
        return Use.VALUE
    return Use.GIVEN if isinstance(above, ast.Assign) and above.targets == [top] and top is not node else None


def is_one_of_many(source: Source, node: ast.expr) -> bool:
    """Whether ``p`` of ``p.grad`` is what a loop or a comprehension around it goes over."""
    root = node
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    names = {root.id} if isinstance(root, ast.Name) else set()
    targets: list[ast.expr] = []
    for above in source.node_ancestors(node):
        if isinstance(above, ast.For | ast.AsyncFor):
            targets.append(above.target)
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            targets += [g.target for g in above.generators]
    return any(isinstance(n, ast.Name) and n.id in names for t in targets for n in ast.walk(t))


def _chain(source: Source, node: ast.expr) -> tuple[ast.expr, str]:
    """The outermost expression that goes on from a node by attributes, entries and calls; the last method's name."""
    top, method = node, ""
    while True:
        above = source.parents.get(top)
        if isinstance(above, ast.Attribute | ast.Subscript) and above.value is top:
            top = above
        elif isinstance(above, ast.Call) and above.func is top:
            method, top = getattr(top, "attr", ""), above
        else:
            return top, method
