"""Names that stand for a part of something else: what a new tensor under such a name would lose."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.source.edits import insert_before
from graphdoc.source.module import Source, each, is_method_call, walked
from graphdoc.source.paths import is_attribute, is_in_place, is_name, is_path, is_set, targets_of, value_given
from graphdoc.source.places import Edit
from graphdoc.source.scopes import is_read_later, is_rebindable, is_torchs, iterated, parameters, scope_of

# What gives another look at the same memory. ``contiguous`` and ``to`` may; they count, since a write may reach the
# base through them.
VIEWS = frozenset(
    {"view", "view_as", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "expand", "expand_as", "permute"}
    | {"transpose", "swapaxes", "movedim", "t", "narrow", "select", "diagonal", "detach", "unbind", "chunk", "split"}
    | {"tensor_split", "unfold", "as_strided", "real", "imag", "data", "T", "mT", "H", "mH", "contiguous", "to"}
)


@dataclass(frozen=True)
class Binding:
    """The last binding of a name above a place: ``statement``, and what the name is a part of, where it is a view.

    ``base`` is the path of the tensor (or list) behind the view; None where a ``for`` runs over something unnamed.
    """

    statement: ast.stmt
    base: ast.expr | None
    looped: bool


def refuse_lost(source: Source, at: ast.stmt, target: ast.expr) -> None:
    """Refuse to bind a name anew where the write was meant for what the name is a part of."""
    if not isinstance(target, ast.Name):
        return
    name = target.id
    bound = view_binding(source, at, name)
    if bound is None:
        function = source.node_function(at)
        stored = (n for n in each(function, ast.Name) if n.id == name and is_set(n))
        if function is None or name not in parameters(function) or any(n.lineno < at.lineno for n in stored):
            return
        if not is_read_later(source, at, name):
            raise CannotFix(f"{function.name} is called for what it writes into {name}: a copy would be lost")
        return
    if is_read_later(source, at, name, bound.statement if bound.looped else None):
        return
    if bound.looped:
        raise CannotFix(f"{name} is a loop's own name: a new tensor under it would be lost")
    if bound.base is not None and (not isinstance(bound.base, ast.Name) or is_read_later(source, at, bound.base.id)):
        base = source.segment(bound.base)
        raise CannotFix(f"{name} is a view of {base}, which is what is used afterwards: a new tensor is lost")


def base_read_after(source: Source, at: ast.stmt, name: str) -> str:
    """The tensor that a name is a part of, where that is read behind the write as well: it would not see the write."""
    bound = view_binding(source, at, name)
    base = bound.base if bound is not None else None
    return base.id if isinstance(base, ast.Name) and base.id != name and is_read_later(source, at, base.id) else ""


def view_binding(source: Source, at: ast.stmt, name: str) -> Binding | None:
    """The binding that makes a name a part of something else at this place; None where it is a tensor of its own."""
    around = [a for a in source.node_ancestors(at) if isinstance(a, ast.For | ast.AsyncFor)]
    above = [
        n
        for n in (*each(scope_of(source, at), ast.Assign, ast.AnnAssign), *around)
        if n is not at and source.span(n)[0] <= source.span(at)[0] and any(is_name(t, name) for t in targets_of(n))
        if source.node_function(n) is source.node_function(at)
    ]
    best = max(above, key=source.span, default=None)
    if isinstance(best, ast.For | ast.AsyncFor):
        given = iterated(best.target, best.iter, name)
        base = viewed(source, given) if given is not None else None
        return Binding(best, base, True)
    value = getattr(best, "value", None)
    if best is None or value is None:
        return None
    base = viewed(source, value_given(best, ast.Name(name)) or value)
    return Binding(best, base, False) if base is not None else None


def viewed(source: Source, node: ast.expr) -> ast.expr | None:
    """The path behind ``x[0]``, ``x.view(-1)``, ``x.T`` or ``torch.chunk(x, 2)``; None where there is none."""
    while True:
        if is_method_call(node) and node.func.attr in VIEWS:
            library = is_torchs(source, node.func.value)
            if library and not node.args:
                return None
            node = node.args[0] if library else node.func.value
        elif isinstance(node, ast.Subscript) or is_attribute(node, *VIEWS):
            node = node.value
        else:
            break
    return node if is_path(node) else None


def written_name(owner: ast.stmt) -> str:
    """The plain name that a statement writes through: ``part += …``, ``part[0] = …``, ``part.mul_(…)``, ``F.relu(part,
    inplace=True)``; empty where it is none."""
    node: ast.expr
    match owner:
        case ast.AugAssign(target=target) | ast.Assign(targets=[ast.Subscript() as target]):
            node = target
        case ast.Expr(value=ast.Call() as call):
            node = call.args[0] if call.args and any(k.arg == "inplace" for k in call.keywords) else call
        case _:
            return ""
    writes = not isinstance(node, ast.Call)
    while not isinstance(node, ast.Name):
        if is_method_call(node):
            writes = writes or is_in_place(node.func.attr)
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return ""
    return node.id if writes else ""


def clone_whole(source: Source, owner: ast.stmt, name: str) -> list[Edit]:
    """``y = y.clone()`` before ``part = y[1:]``, where ``part += …`` comes right behind; none where it does not fit.

    What the tensor's operations have saved is then the one from before. Between the two nothing may read either name,
    and what is written may not be computed from them: it would be saved from the clone.
    """
    bound = view_binding(source, owner, name)
    base = bound.base if bound is not None else None
    block, at = source.node_block(owner)
    if bound is None or bound.looped or not isinstance(base, ast.Name):
        return []
    begin = next((i for i, s in enumerate(block[:at]) if s is bound.statement), None)
    if begin is None or not is_rebindable(source, base.id, owner):
        return []
    value = getattr(owner, "value", None)
    written = value.args if isinstance(owner, ast.Expr) and isinstance(value, ast.Call) else [value]
    for node in (n for s in (*block[begin + 1 : at], *written) if s is not None for n in walked(s)):
        if isinstance(node, ast.Name) and node.id in (base.id, name):
            return []
    return insert_before(source, bound.statement, [f"{base.id} = {base.id}.clone()"])
