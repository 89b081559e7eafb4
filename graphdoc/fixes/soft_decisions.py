"""A decision that a loss is made of gives way to the probability that it was made from: ``(p > 0.5).float()`` → ``p``.

Args:
    place: the comparison of a probability with a number.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, kind, required
from graphdoc.source.edits import write
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

_CASTS = frozenset({"float", "double", "half", "bfloat16", "type", "to", "type_as"})
_ABOVE = {ast.Gt: True, ast.GtE: True, ast.Lt: False, ast.LtE: False}
_METHODS = {"gt": True, "ge": True, "greater": True, "lt": False, "le": False, "less": False}
_ARITHMETIC = ast.Add | ast.Sub | ast.Mult | ast.Div


@kind("probability_for_decision")
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    probability, above = _compared(node)
    top = _as_number(source, node)
    return [write(source, top, "{p}" if above else "1 - {p}", p=probability)]


def _compared(node: ast.expr) -> tuple[ast.expr, bool]:
    """What is compared with a number between 0 and 1, and whether the answer is yes above it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _ABOVE:
        above = _ABOVE[type(node.ops[0])]
        if _is_threshold(node.comparators[0]):
            return node.left, above
        if _is_threshold(node.left):
            return node.comparators[0], not above
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        if len(node.args) == 1 and _is_threshold(node.args[0]):
            return node.func.value, _METHODS[node.func.attr]
        if len(node.args) == 2 and _is_threshold(node.args[1]):
            return node.args[0], _METHODS[node.func.attr]
    raise CannotFix("no probability is compared with a number there")


def _is_threshold(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1


def _as_number(source: Source, node: ast.expr) -> ast.expr:
    """The decision as a number: converted, or in arithmetic. What indexes or is combined with another is none."""
    above = source.parents.get(node)
    call = source.parents.get(above) if isinstance(above, ast.Attribute) else None
    if isinstance(above, ast.Attribute) and above.attr in _CASTS and isinstance(call, ast.Call) and call.func is above:
        return call
    if isinstance(above, ast.BinOp) and isinstance(above.op, _ARITHMETIC):
        return node
    raise CannotFix("the decision is not used as a number there")
