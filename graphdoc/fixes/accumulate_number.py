"""Accumulate a number (or a tensor without graph) instead of the graph of every iteration.

``total += loss`` → ``total += loss.detach()``, ``total = total + loss`` and ``losses.append(loss)`` likewise.

Args:
    place: the accumulating statement, or an expression in it.
    mode: ``"detach"`` (default) or ``"item"``.
    backward: optional; the ``total.backward()`` call that is to run on this iteration's loss instead.
    name: with ``backward``: the name of this iteration's loss; by default the added name. An added expression gets a
        name of its own before the statement.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required, statement
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.edits import copied, insert_before, write, written
from graphdoc.source.paths import is_path, same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name

KIND = "accumulate_number"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    method = str(args.get("mode", "detach"))
    addend = _addend(node)
    if addend is None:
        raise CannotFix("nothing is accumulated there")
    if isinstance(addend, ast.Constant):
        raise CannotFix("what is added is a number already")
    if args.get("backward") is None:
        return convert_expression(source, addend, "tensor", method)
    other, backward = call(sources, args["backward"])
    if other is not source or not isinstance(backward.func, ast.Attribute) or backward.func.attr != "backward":
        raise CannotFix("the backward call to change was not found")
    differentiated = _differentiated(backward, backward.func.value, node)
    if is_path(addend) or args.get("name"):
        name = str(args.get("name") or source.segment(addend))
        return [*convert_expression(source, addend, "tensor", method), write(source, differentiated, name)]
    name = fresh_name(source, "loss", "step_loss")
    return [
        *insert_before(source, node, [written(source, f"{name} = {{loss}}", loss=copied(source, addend))]),
        write(source, addend, f"{name}.{method}()"),
        write(source, differentiated, name),
    ]


def _differentiated(backward: ast.Call, owner: ast.expr, accumulating: ast.stmt) -> ast.expr:
    """What the call differentiates: its owner, or its first argument (``accelerator.backward(total)``)."""
    targets = accumulating.targets if isinstance(accumulating, ast.Assign) else [getattr(accumulating, "target", owner)]
    own = any(same(part, target) for part in ast.walk(owner) for target in targets if isinstance(part, ast.expr))
    return owner if own or not backward.args else backward.args[0]


def _addend(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.AugAssign):
        return node.value
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
        left, right = node.value.left, node.value.right
        if same(left, node.targets[0]):
            return right
        return left if same(right, node.targets[0]) else None
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and len(value.args) == 1:
        return value.args[0] if value.func.attr in ("append", "appendleft", "add") else None
    return None
