"""One backward call behind a loop instead of one in each round: the losses are summed up in the loop."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.program_slices import binds, check_passed, reads
from graphdoc.source.edits import below, copied, delete, insert_after, insert_before, instead, written
from graphdoc.source.effects import READS_GRADIENTS
from graphdoc.source.module import Source, each
from graphdoc.source.paths import bare_call, is_name, is_path, key, last_word, plain_names, same, targets_of
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import fresh_name, own_nodes, scope_of

_WALKS = frozenset({"range", "enumerate", "zip", "reversed", "sorted", "list", "tuple"})
_VIEWS = frozenset({"items", "keys", "values", "children", "modules", "parameters", "split", "chunk", "unbind"})
_ONCE = frozenset({"iter", "map", "filter", "zip", "enumerate", "reversed", "items", "values"})


def sum_over_loop(
    source: Source, loop: ast.For, node: ast.Call, owner: ast.stmt, kept: dict[str, ast.expr], move_steps: bool
) -> list[Edit]:
    """``for …: loss = …; loss.backward()`` → a sum that starts before the loop and is differentiated behind it.

    What steps behind the backward call in the loop's body gets a loop of its own behind the new call.

    Raises:
        CannotFix: the loop may end early, reads gradients, or steps in a way that cannot be taken out of it.
    """
    _check(loop, owner)
    loss = node.func.value  # type: ignore[attr-defined]
    steps = _steps(loop, owner)
    if not move_steps:
        called = {n.attr for n in each(loop, ast.Attribute)}
        if steps or "step" in called:
            raise CannotFix("an optimizer steps between the backward calls")
        if "zero_grad" in called:
            raise CannotFix("gradients are set to zero between the backward calls")
    name = fresh_name(source, "total_loss", "summed_loss")
    keywords = ", ".join(f"{k}={{{k}}}" for k in kept)
    behind: list[Text] = [written(source, f"{name}.backward({keywords})", **kept)]
    if steps:
        again = _again(loop, owner, steps)
        if not repeatable(source, loop, loop.iter):
            raise CannotFix("what the loop goes through may not give the same a second time")
        header = written(source, "for {target} in {group}:", target=loop.target, group=loop.iter)
        behind.append(below(header, [copied(source, s) for s in again]))
    return [
        *insert_before(source, loop, [f"{name} = 0.0"]),
        *instead(source, owner, [written(source, f"{name} = {name} + {{loss}}", loss=loss)]),
        *(e for s in steps for e in delete(source, s)),
        *insert_after(source, loop, behind),
    ]


def _check(loop: ast.For, owner: ast.stmt) -> None:
    if loop.orelse or not any(s is owner for s in loop.body):
        raise CannotFix("only one backward call was named, and it does not stand in the body of a loop over losses")
    check_passed(loop.body, frozenset(), gradients=READS_GRADIENTS)
    check_passed([s for s in loop.body if s is not owner], frozenset(), gradients={"backward"})


def _steps(loop: ast.For, owner: ast.stmt) -> list[ast.stmt]:
    """The statements of the body that step, or set gradients to zero behind the call; in their order."""
    at = next(i for i, s in enumerate(loop.body) if s is owner)
    found: list[ast.stmt] = []
    stepping = False
    for i, statement in enumerate(loop.body):
        names = {n.attr for n in each(statement, ast.Attribute)}
        if not names & {"step", "zero_grad", "update"}:
            continue
        value = bare_call(statement)
        plain = value is not None and isinstance(value.func, ast.Attribute) and not value.args
        method = value.func.attr if plain else ""  # type: ignore[union-attr]
        if i < at:
            if "step" in names:
                raise CannotFix("an optimizer steps before the backward call of the loop")
            continue
        if method not in ("step", "zero_grad") or (value.keywords and method == "step"):  # type: ignore[union-attr]
            if "step" in names or ("update" in names and stepping):
                raise CannotFix("a step hides in a statement of the loop")
            continue
        stepping = stepping or method == "step"
        found.append(statement)
    return found if stepping else []


def _again(loop: ast.For, owner: ast.stmt, steps: list[ast.stmt]) -> list[ast.stmt]:
    """The second loop's body: the steps, and the names of this round that they need."""
    known = {key(t) for t in targets_of(loop)}
    again: list[ast.stmt] = []
    for step in steps:
        wanted = {n for n in reads(step) if n.isidentifier()} | plain_names(step)
        for statement in loop.body:
            if statement is owner:
                break
            bound = (
                binds(statement)
                if isinstance(statement, ast.Assign | ast.AnnAssign)
                else plain_names(statement, ast.Store)
            )
            if not bound & wanted:
                continue
            value = getattr(statement, "value", None)
            if not isinstance(statement, ast.Assign) or value is None or not is_path(value) or bound - wanted:
                raise CannotFix(f"{min(bound & wanted)} belongs to one round of the loop")
            if not any(same(statement, s) for s in again):
                again.append(statement)
        again.append(step)
    later = {n for s in loop.body for n in plain_names(s, ast.Store)} & known
    if later:
        raise CannotFix(f"{min(later)} is assigned again in the loop")
    return again


def repeatable(source: Source, loop: ast.For, node: ast.expr) -> bool:
    """Whether what a loop goes through gives the same when it is gone through again."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.List | ast.Tuple):
        return all(repeatable(source, loop, e) for e in node.elts)
    if isinstance(node, ast.Name):
        scope = scope_of(source, loop)
        bound = [n for n in own_nodes(scope) if isinstance(n, ast.Assign)] if scope is not None else []
        values = [n.value for n in bound if any(key(t) == node.id for t in targets_of(n))]
        return not any(isinstance(v, ast.GeneratorExp) or _called(v) in _ONCE for v in values)
    if isinstance(node, ast.Attribute | ast.Subscript):
        return is_path(node)
    if isinstance(node, ast.Call) and not node.keywords:
        if isinstance(node.func, ast.Name) and node.func.id in _WALKS:
            return all(repeatable(source, loop, a) for a in node.args)
        if is_name(node.func, "len"):
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            return repeatable(source, loop, node.func.value)
    return False


def _called(node: ast.expr) -> str:
    return last_word(node.func) if isinstance(node, ast.Call) else ""
