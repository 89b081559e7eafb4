"""A way for the gradient where a derivative is zero: past a rounding, and in the place of a yes or no."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, call, expression, kind, last_name, required
from graphdoc.source.edits import Piece, copied, insert_before, write, written
from graphdoc.source.expressions import operand_of
from graphdoc.source.module import Source, is_method_call
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, torch_name

_FLAT = {"round", "floor", "ceil", "trunc", "sign", "sgn", "fix"}
_CASTS = ("float", "double", "half", "bfloat16", "type", "to", "type_as")
_ABOVE = {ast.Gt: True, ast.GtE: True, ast.Lt: False, ast.LtE: False}
_METHODS = {"gt": True, "ge": True, "greater": True, "lt": False, "le": False, "less": False}
_SINGLE = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr


@kind("straight_through", call)
def straight_through(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Send the gradient past a rounding: ``torch.round(x)`` → ``x + (torch.round(x) - x).detach()``."""
    name = last_name(node)
    if name not in _FLAT:
        raise CannotFix(f"{name or 'what is called'} is no rounding that is written out")
    value = operand_of(source, node)
    if value is None:
        raise CannotFix("what is rounded is not written in the call")
    if isinstance(value, ast.Name) or (isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)):
        return [write(source, node, "{x} + ({call} - {x}).detach()", x=value, call=node)]
    owner = source.node_owner(node)
    if not isinstance(owner, _SINGLE) or source.runs_apart(node, owner):
        raise CannotFix("what is rounded has no name, and cannot be given one there")
    held = fresh_name(source, "unrounded", "before_rounding")
    rounding = copied(source, node, [write(source, value, held)])
    return [
        *insert_before(source, owner, [written(source, f"{held} = {{value}}", value=value)]),
        write(source, node, f"{held} + ({{call}} - {held}).detach()", call=rounding),
    ]


@kind("soften_comparison", expression)
def soften_comparison(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Let a yes or no that is counted go over smoothly: ``(p > 0.5).sum()`` → ``torch.sigmoid((p - 0.5) / 0.1).sum()``.

    Args:
        width: the source of the distance over which it goes from no to yes.
    """
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise CannotFix("one value is not compared with one other there")
    over, under = node.left, node.comparators[0]
    if isinstance(node.ops[0], ast.Lt | ast.LtE):
        over, under = under, over
    elif not isinstance(node.ops[0], ast.Gt | ast.GtE):
        raise CannotFix("which of the two is to be larger is not asked there")
    if _as_number(source, node, "mean", "sum") is None:
        raise CannotFix("the answer is not counted where it is made")
    torch = torch_name(source, node)
    parts: dict[str, Piece] = {"over": over, "width": str(required(args, "width"))}
    if not (isinstance(under, ast.Constant) and under.value == 0):
        parts["under"] = under
    difference = "({over} - {under})" if "under" in parts else "{over}"
    return [*torch.edits, write(source, node, f"{torch.text}.sigmoid({difference} / {{width}})", **parts)]


@kind("probability_for_decision", expression)
def probability_for_decision(source: Source, node: ast.expr, _: Args) -> list[Edit]:
    """Let a loss be made of the probability that a decision was made from: ``(p > 0.5).float()`` → ``p``."""
    probability, above = _compared(node)
    top = _as_number(source, node)
    if top is None:
        raise CannotFix("the decision is not used as a number there")
    return [write(source, top, "{p}" if above else "1 - {p}", p=probability)]


def _compared(node: ast.expr) -> tuple[ast.expr, bool]:
    """What is compared with a number between 0 and 1, and whether the answer is yes above it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _ABOVE:
        above = _ABOVE[type(node.ops[0])]
        if _is_threshold(node.comparators[0]):
            return node.left, above
        if _is_threshold(node.left):
            return node.comparators[0], not above
    if is_method_call(node) and node.func.attr in _METHODS:
        if len(node.args) == 1 and _is_threshold(node.args[0]):
            return node.func.value, _METHODS[node.func.attr]
        if len(node.args) == 2 and _is_threshold(node.args[1]):
            return node.args[0], _METHODS[node.func.attr]
    raise CannotFix("no probability is compared with a number there")


def _is_threshold(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1


def _as_number(source: Source, node: ast.expr, *also: str) -> ast.expr | None:
    """A yes or no as a number: converted (or what is ``also`` called of it), or in arithmetic. What indexes is none."""
    above, call = source.parents.get(node), source.node_method_of(node)
    if call is not None and call.func.attr in (*_CASTS, *also):
        return call
    plain = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add | ast.Sub | ast.Mult | ast.Div)
    return node if plain else None
