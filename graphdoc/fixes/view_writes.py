"""A write through a name that stands for a part of a tensor: the whole is cloned before the part is taken."""

from __future__ import annotations

import ast

from graphdoc.fixes.aliases import view_binding
from graphdoc.source.edits import insert_before
from graphdoc.source.module import Source
from graphdoc.source.paths import targets_of, without_subscripts
from graphdoc.source.places import Edit
from graphdoc.source.scopes import is_rebindable


def written_name(owner: ast.stmt, node: ast.expr | None) -> str:
    """The name that a statement writes through: ``part += …``, ``part[0] = …``, ``part.mul_(…)``; else empty."""
    targets = [t for t in targets_of(owner) if isinstance(t, ast.Subscript) or isinstance(owner, ast.AugAssign)]
    call = node if isinstance(node, ast.Call) else getattr(owner, "value", None)
    if isinstance(owner, ast.Expr) and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        targets = [call.func.value]
    base = without_subscripts(targets[0]) if len(targets) == 1 else None
    return base.id if isinstance(base, ast.Name) else ""


def clone_whole(source: Source, owner: ast.stmt, name: str) -> list[Edit]:
    """``y = y.clone()`` before ``part = y[1:]``, where ``part += …`` comes right behind; none where it does not fit.

    What the tensor's operations have saved is then the one from before. Between the two nothing may read either name,
    and what is written may not be computed from them: it would be saved from the clone.
    """
    bound = view_binding(source, owner, name)
    base = bound.base if bound is not None else None
    found = source.node_block(owner)
    if bound is None or bound.looped or not isinstance(base, ast.Name) or found is None:
        return []
    block, at = found
    begin = next((i for i, s in enumerate(block[:at]) if s is bound.statement), None)
    if begin is None or not is_rebindable(source, base.id, owner):
        return []
    value = getattr(owner, "value", None)
    written = value.args if isinstance(owner, ast.Expr) and isinstance(value, ast.Call) else [value]
    for node in (n for s in (*block[begin + 1 : at], *written) if s is not None for n in ast.walk(s)):
        if isinstance(node, ast.Name) and node.id in (base.id, name):
            return []
    return insert_before(source, bound.statement, [f"{base.id} = {base.id}.clone()"])
