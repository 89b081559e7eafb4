"""A way for the gradient where a derivative is zero: past a rounding, and along a smooth stand-in of a yes or no."""

from __future__ import annotations

import ast
from collections.abc import Collection

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, expression, kind, last_name, required
from graphdoc.source.edits import Piece, copied, insert_before, write, written
from graphdoc.source.expressions import is_module
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name, module_names, torch_name

_FLAT = {"round", "floor", "ceil", "trunc", "sign", "sgn", "fix"}
_SINGLE = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr


@kind("straight_through")
def straight_through(sources: Sources, args: Args) -> list[Edit]:
    """Send the gradient past a rounding: ``torch.round(x)`` → ``x + (torch.round(x) - x).detach()``.

    Args:
        place: the call; what it rounds is its first argument, or what it is a method of.
    """
    source, node = call(sources, required(args, "place"))
    name = last_name(node)
    if name not in _FLAT:
        raise CannotFix(f"{name or 'what is called'} is no rounding that is written out")
    value = _rounded(node, module_names(source))
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


def _rounded(node: ast.Call, modules: Collection[str]) -> ast.expr:
    """The tensor that the call rounds."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if owner is not None and is_module(owner, modules):
        owner = None
    value = owner or (node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None)
    if value is None:
        raise CannotFix("what is rounded is not written in the call")
    return value


_ADDED_UP = {"float", "double", "half", "to", "type_as", "mean", "sum"}
"""What is called of a yes or no that counts as a number from there on."""


@kind("soften_comparison")
def soften_comparison(sources: Sources, args: Args) -> list[Edit]:
    """Let a yes or no that is counted go over smoothly: ``(p > 0.5).sum()`` → ``torch.sigmoid((p - 0.5) / 0.1).sum()``.

    Args:
        place: the comparison.
        width: the source of the distance over which it goes from no to yes.
    """
    source, node = expression(sources, required(args, "place"))
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        raise CannotFix("one value is not compared with one other there")
    over, under = node.left, node.comparators[0]
    if isinstance(node.ops[0], ast.Lt | ast.LtE):
        over, under = under, over
    elif not isinstance(node.ops[0], ast.Gt | ast.GtE):
        raise CannotFix("which of the two is to be larger is not asked there")
    above = source.parents.get(node)
    called = isinstance(above, ast.Attribute) and above.attr in _ADDED_UP
    if not called and not (isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult | ast.Add | ast.Sub)):
        raise CannotFix("the answer is not counted where it is made")
    torch = torch_name(source, node)
    parts: dict[str, Piece] = {"over": over, "width": str(required(args, "width"))}
    if not (isinstance(under, ast.Constant) and under.value == 0):
        parts["under"] = under
    difference = "({over} - {under})" if "under" in parts else "{over}"
    return [*torch.edits, write(source, node, f"{torch.text}.sigmoid({difference} / {{width}})", **parts)]
