"""Send the gradient past a call whose derivative is zero: ``torch.round(x)`` → ``x + (torch.round(x) - x).detach()``.

Args:
    place: the call; what it rounds is its first argument, or what it is a method of.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, last_name, required
from graphdoc.source.edits import copied, insert_before, write, written
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name

_FLAT = {"round", "floor", "ceil", "trunc", "sign", "sgn", "fix"}
_SINGLE = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr


@kind("straight_through")
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    name = last_name(node)
    if name not in _FLAT:
        raise CannotFix(f"{name or 'what is called'} is no rounding that is written out")
    value = _rounded(node)
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


def _rounded(node: ast.Call) -> ast.expr:
    """The tensor that the call rounds."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id in ("torch", "np", "numpy"):
        owner = None
    value = owner or (node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None)
    if value is None:
        raise CannotFix("what is rounded is not written in the call")
    return value
