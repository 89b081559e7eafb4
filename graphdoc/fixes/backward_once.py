"""Differentiate a loss once for the steps of several optimizers: the second call of ``backward`` goes.

What sets gradients to zero between the two calls is moved before the first, so that each step uses what that one call
gave. Nothing else may stand between them that reads or changes gradients, and the loss must be the same.

Args:
    stays: the call of ``backward`` that stays; ``retain_graph`` is taken out of it.
    goes: the one that goes.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import copied, delete, insert_before, without_flag
from graphdoc.source.effects import READS_GRADIENTS, binds_any, method_of, opaque_calls
from graphdoc.source.paths import key
from graphdoc.source.places import Edit

KIND = "backward_once"
KEEPS_NUMBERS = True

_ORDER = frozenset({"step", "zero_grad"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, one = call(sources, required(args, "stays"))
    other_source, other = call(sources, required(args, "goes"))
    first, second = source.node_owner(one), other_source.node_owner(other)
    if source is not other_source or first is None or second is None:
        raise CannotFix("the two calls stand in different files")
    losses = [_loss(node, owner) for node, owner in ((one, first), (other, second))]
    if key(losses[0]) != key(losses[1]):
        raise CannotFix("the two calls are of different losses")
    found, behind = source.node_block(first), source.node_block(second)
    if found is None or behind is None or found[0] is not behind[0] or found[1] >= behind[1]:
        raise CannotFix("the two calls do not stand one behind the other in one block")
    between = found[0][found[1] + 1 : behind[1]]
    names = {key(n) for n in ast.walk(losses[0]) if isinstance(n, ast.Name | ast.Attribute)}
    if bound := binds_any(between, names):
        raise CannotFix(f"{bound} changes between the two calls")
    moved = _cleared(between, first)
    stepped = [key(on) for s in between if (named := method_of(s))[0] == "step" and (on := named[1]) is not None]
    zeroed = {key(on) for s in moved if (on := method_of(s)[1]) is not None}
    if again := zeroed & set(stepped):
        raise CannotFix(f"{min(again)} steps once with each of the two gradients")
    if not moved and not stepped:
        raise CannotFix("the second gradient is added to the first")
    edits = insert_before(source, first, [copied(source, s) for s in moved])
    for statement in (*moved, second):
        edits += delete(source, statement)
    return [*edits, *without_flag(source, one)]


def _loss(node: ast.Call, owner: ast.stmt) -> ast.expr:
    if not isinstance(owner, ast.Expr) or owner.value is not node or not isinstance(node.func, ast.Attribute):
        raise CannotFix("a backward call is part of a larger statement")
    if node.func.attr != "backward" or node.args or any(k.arg not in ("retain_graph",) for k in node.keywords):
        raise CannotFix("a backward call with its own gradient or inputs gives another gradient")
    return node.func.value


def _cleared(between: list[ast.stmt], first: ast.stmt) -> list[ast.stmt]:
    """The statements that clear gradients between the calls; all the others leave gradients and parameters alone."""
    moved: list[ast.stmt] = []
    for statement in between:
        name, _ = method_of(statement)
        if name == "zero_grad":
            moved.append(statement)
        elif name != "step" and (bad := _touches(statement)):
            raise CannotFix(f"what `{bad}` does between the two calls is not known")
    assert first not in moved
    return moved


def _touches(statement: ast.stmt) -> str:
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and node.attr in READS_GRADIENTS:
            return ast.unparse(node)
    unknown = opaque_calls(statement, frozenset())
    return ast.unparse(unknown[0]) if unknown else ""
