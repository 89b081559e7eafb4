"""Use what ``detach()`` returns where ``detach_()`` cannot cut in place: ``h.detach_()`` → ``h = h.detach()``.

A loop variable over a list or tuple of tensors would lose the new one, so the list is made anew before the loop:
``grads = [grad.detach() for grad in grads]``.

Args:
    place: the call of ``detach_``; a statement of its own.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.aliases import refuse_lost, view_binding
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import delete, insert_before, instead, written
from graphdoc.source.effects import method_of
from graphdoc.source.loop_variables import iterated
from graphdoc.source.module import Source
from graphdoc.source.paths import key, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import imported_as, is_rebindable, own_nodes, scope_of

KIND = "detach_instead"
KEEPS_NUMBERS = True

_SEVERAL = frozenset({"unbind", "chunk", "split", "tensor_split", "hsplit", "vsplit", "dsplit"})
"""Functions and methods that return a tuple of views."""


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    method, target = method_of(owner)
    if method != "detach_" or target is None:
        raise CannotFix("`detach_()` is part of a larger statement there")
    if not _is_plain(target):
        raise CannotFix("the tensor is the item of a container or the result of a call: a new one would be lost")
    if isinstance(target, ast.Name):
        if not is_rebindable(source, target.id, owner):
            raise CannotFix(f"{target.id} belongs to an enclosing scope and cannot be bound anew here")
        bound = view_binding(source, owner, target.id)
        if bound is not None and bound.looped and isinstance(bound.statement, ast.For):
            return _list_anew(source, owner, bound.statement, target.id)
        refuse_lost(source, owner, target)
    return instead(source, owner, [written(source, "{cut} = {cut}.detach()", cut=target)])


def _is_plain(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _list_anew(source: Source, owner: ast.stmt, loop: ast.For, name: str) -> list[Edit]:
    """A list of cut tensors before the loop, in the place of what the loop goes through."""
    given = iterated(loop.target, loop.iter, name)
    if not isinstance(given, ast.Name) or not is_rebindable(source, given.id, loop):
        raise CannotFix(f"{name} is bound by a loop over what has no name of its own: a new tensor would be lost")
    if not _is_sequence(source, loop, given.id):
        raise CannotFix(f"{given.id} may be one tensor, and not a list of them")
    if owner not in loop.body or any(_binds(s, name) for s in loop.body):
        raise CannotFix(f"not each {name} of the loop is detached")
    at = loop.body.index(owner)
    if any(_named(s, name) for s in loop.body[:at]):
        raise CannotFix(f"{name} is used before it is detached")
    cut = insert_before(source, loop, [f"{given.id} = [{name}.detach() for {name} in {given.id}]"])
    if len(loop.body) == 1:
        return [*cut, *delete(source, loop)] if not loop.orelse else _refuse(name)
    return [*cut, *delete(source, owner)]


def _refuse(name: str) -> list[Edit]:
    raise CannotFix(f"the loop over {name} does something else when it ends")


def _is_sequence(source: Source, at: ast.stmt, name: str) -> bool:
    """Whether all that a function binds to a name is a list or tuple."""
    scope = scope_of(source, at)
    nodes = own_nodes(scope) if scope is not None else []
    bound = [n for n in nodes if isinstance(n, ast.stmt) and any(key(t) == name for t in targets_of(n))]
    values = [n.value for n in bound if isinstance(n, ast.Assign | ast.AnnAssign) and n.value is not None]
    return bool(bound) and len(values) == len(bound) and all(_is_list(source, v) for v in values)


def _is_list(source: Source, value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Tuple | ast.ListComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Name) and value.func.id in ("list", "tuple", "sorted"):
        return True
    if key(value.func) in ("torch.autograd.grad", imported_as(source, "torch.autograd.grad", value)):
        return True
    return isinstance(value.func, ast.Attribute) and value.func.attr in _SEVERAL


def _binds(node: ast.stmt, name: str) -> bool:
    return any(key(t) == name for n in ast.walk(node) if isinstance(n, ast.stmt) for t in targets_of(n))


def _named(node: ast.stmt, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))
