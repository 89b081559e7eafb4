"""One backward call in the place of several: of a block, or of each round of a loop."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, place, plain_backward, required
from graphdoc.fixes.program_slices import changes, check_passed, made_of, reads
from graphdoc.source.edits import (
    below,
    copied,
    delete,
    insert_after,
    insert_before,
    instead,
    without_flag,
    write,
    written,
)
from graphdoc.source.effects import READS_GRADIENTS, method_of
from graphdoc.source.module import Source, each, is_method_call, walked
from graphdoc.source.paths import bare_call, is_name, is_path, key, last_word, plain_names, same, targets_of
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import fresh_name, own_nodes, scope_of

_WALKS = frozenset({"range", "enumerate", "zip", "reversed", "sorted", "list", "tuple"})
_VIEWS = frozenset({"items", "keys", "values", "children", "modules", "parameters", "split", "chunk", "unbind"})
_ONCE = frozenset({"iter", "map", "filter", "zip", "enumerate", "reversed", "items", "values"})


@dataclass(frozen=True)
class _Call:
    """A backward call, a statement of its own, and the loss: what ``backward`` is called on, or what is given to a
    function of the program that does only that."""

    node: ast.Call
    owner: ast.stmt
    loss: ast.expr

    def of(self, source: Source, template: str, **parts: ast.expr) -> Text:
        """The same call for another loss."""
        if self.loss in self.node.args:
            return written(source, f"{{does}}({template})", does=self.node.func, **parts)
        kept = {str(k.arg): k.value for k in self.node.keywords if k.arg in _KEPT}
        keywords = ", ".join(f"{k}={{{k}}}" for k in kept)
        return written(source, f"{template}.backward({keywords})", **parts, **kept)


def sum_over_loop(source: Source, loop: ast.For, call: _Call, move_steps: bool) -> list[Edit]:
    """``for …: loss = …; loss.backward()`` → a sum that starts before the loop and is differentiated behind it.

    What steps behind the backward call in the loop's body gets a loop of its own behind the new call.
    """
    owner = call.owner
    _check(loop, owner)
    steps = _steps(loop, owner)
    if not move_steps:
        called = {n.attr for n in each(loop, ast.Attribute)}
        if steps or "step" in called:
            raise CannotFix("an optimizer steps between the backward calls")
        if "zero_grad" in called:
            raise CannotFix("gradients are set to zero between the backward calls")
    name = fresh_name(source, "total_loss", "summed_loss")
    behind: list[Text] = [call.of(source, name)]
    if steps:
        behind.append(in_own_loop(source, loop, _again(loop, owner, steps)))
    return [
        *insert_before(source, loop, [f"{name} = 0.0"]),
        *instead(source, owner, [written(source, f"{name} = {name} + {{loss}}", loss=call.loss)]),
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
    found: list[ast.stmt] = []
    stepping, behind = False, False
    for statement in loop.body:
        behind = behind or statement is owner
        names = {n.attr for n in each(statement, ast.Attribute)}
        if not behind:
            if "step" in names:
                raise CannotFix("an optimizer steps before the backward call of the loop")
            continue
        value = bare_call(statement)
        method = value.func.attr if is_method_call(value, "step", "zero_grad") and not value.args else ""
        if method and not (method == "step" and value is not None and value.keywords):
            stepping = stepping or method == "step"
            found.append(statement)
        elif "step" in names or ("update" in names and stepping):
            raise CannotFix("a step hides in a statement of the loop")
    return found if stepping else []


def _again(loop: ast.For, owner: ast.stmt, steps: list[ast.stmt]) -> list[ast.stmt]:
    """The second loop's body: the names of this round that the steps need, and the steps."""
    wanted = {n for s in steps for n in reads(s) if n.isidentifier()}
    before = loop.body[: loop.body.index(owner)]
    named = made_of(before, wanted)
    for statement in before:
        taken = changes(statement) & wanted
        plain = isinstance(statement, ast.Assign) and statement in named and is_path(statement.value)
        if taken and (not plain or changes(statement) - wanted):
            raise CannotFix(f"{min(taken)} belongs to one round of the loop")
    later = {n for s in loop.body for n in plain_names(s, ast.Store)} & {key(t) for t in targets_of(loop)}
    if later:
        raise CannotFix(f"{min(later)} is assigned again in the loop")
    return [*named, *steps]


def in_own_loop(source: Source, loop: ast.For, statements: list[ast.stmt]) -> Text:
    """Statements that run once more for each round of a loop, in a loop of their own."""
    if not repeatable(source, loop, loop.iter):
        raise CannotFix("what the loop goes through may not give the same a second time")
    header = written(source, "for {target} in {group}:", target=loop.target, group=loop.iter)
    return below(header, [copied(source, s) for s in statements])


def repeatable(source: Source, loop: ast.For, node: ast.expr) -> bool:
    """Whether what a loop goes through gives the same when it is gone through again."""
    if isinstance(node, ast.List | ast.Tuple):
        return all(repeatable(source, loop, e) for e in node.elts)
    if isinstance(node, ast.Name):
        scope = scope_of(source, loop)
        bound = [n for n in own_nodes(scope) if isinstance(n, ast.Assign)]
        values = [n.value for n in bound if any(key(t) == node.id for t in targets_of(n))]
        return not any(isinstance(v, ast.GeneratorExp) or last_word(getattr(v, "func", None)) in _ONCE for v in values)
    if isinstance(node, ast.Attribute | ast.Subscript):
        return is_path(node)
    if not isinstance(node, ast.Call) or node.keywords:
        return isinstance(node, ast.Constant)
    if is_method_call(node, *_VIEWS):
        return repeatable(source, loop, node.func.value)
    walks = isinstance(node.func, ast.Name) and node.func.id in _WALKS
    return is_name(node.func, "len") or (walks and all(repeatable(source, loop, a) for a in node.args))


# Merge backward calls of one block into one.


_KEPT = {"create_graph"}


@kind("merge_backward")
def merge_backward(sources: Sources, args: Args) -> list[Edit]:
    """Merge backward calls of one block into one: ``(a + b).backward()`` at the last, the earlier ones go.

    With a single place inside ``for loss in losses: loss.backward()`` the loop becomes ``sum(losses).backward()``; in a
    loop that does more, the losses are summed up and the sum is differentiated behind it.

    Args:
        places: the places of the ``X.backward(...)`` calls.
        move_steps: True moves a ``step()`` that stands between them behind the merged call (otherwise it is a reason to
            refuse, as a ``zero_grad()`` is).
        losses: optional; the places of the losses, where the calls are those of a function that calls ``backward`` on
            what it is given, and does nothing else.
    """
    places = required(args, "places")
    given = args.get("losses") or [None] * len(places)
    found = [_call(sources, p, of) for p, of in zip(places, given, strict=True)]
    if not found:
        raise CannotFix("no backward call was named")
    source = found[0][0]
    if any(s is not source for s, _ in found):
        raise CannotFix("the backward calls stand in different files")
    calls = sorted({id(c.owner): c for _, c in found}.values(), key=lambda c: source.span(c.owner)[0])
    if len(calls) == 1:
        return _merge_loop(source, calls[0], bool(args.get("move_steps")))
    owners = [c.owner for c in calls]
    passed = source.node_between(owners[0], owners[-1])
    if passed is None or any(o not in passed for o in owners[1:-1]):
        raise CannotFix("the backward calls do not stand in one block")
    return _merge(source, calls, [s for s in passed if s not in owners], args)


def _call(sources: Sources, value: object, of: object) -> tuple[Source, _Call]:
    if of is None:
        source, node, owner = plain_backward(sources, value, {"retain_graph", *_KEPT})
        return source, _Call(node, owner, node.func.value)
    source, helper = call(sources, value)
    statement, loss = source.node_owner(helper), source.node_expression(place(of))
    if loss is None or not isinstance(statement, ast.Expr) or statement.value is not helper:
        raise CannotFix("the backward call is part of a larger statement")
    if helper.args != [loss] or helper.keywords:
        raise CannotFix("the function that calls backward is given more than the loss")
    return source, _Call(helper, statement, loss)


def _merge(source: Source, calls: list[_Call], passed: list[ast.stmt], args: Args) -> list[Edit]:
    last = calls[-1]
    losses = [c.loss for c in calls]
    same_name = len({key(loss) for loss in losses}) == 1
    used = set() if same_name else {n for loss in losses[:-1] for n in reads(loss)}
    edits: list[Edit] = []
    moved: list[ast.stmt] = []
    for statement in passed:
        method, _ = method_of(statement)
        if method == "zero_grad":
            raise CannotFix("gradients are set to zero between the backward calls")
        if method == "step":
            if not args.get("move_steps"):
                raise CannotFix("an optimizer steps between the backward calls")
            moved.append(statement)
            edits += delete(source, statement)
        else:
            check_passed([statement], used, gradients=READS_GRADIENTS | {"step", "zero_grad", "backward"})
    if same_name:
        edits += _accumulate(source, calls, passed, losses[0])
    else:
        terms = {f"loss{i}": loss for i, loss in enumerate(losses)}
        edits.append(write(source, losses[-1], " + ".join(f"{{{t}}}" for t in terms), **terms))
    for one in calls[:-1]:
        edits += delete(source, one.owner)
    edits += without_flag(source, last.node)
    return edits + insert_after(source, last.owner, [copied(source, s) for s in moved])


def _accumulate(source: Source, calls: list[_Call], passed: list[ast.stmt], loss: ast.expr) -> list[Edit]:
    """One name for every loss: each later ``loss = value`` becomes ``loss = loss + value``."""
    name = key(loss)
    stops = [source.span(c.owner)[0] for c in calls]
    edits: list[Edit] = []
    for begin, end in pairwise(stops):
        here = [s for s in passed if begin < source.span(s)[0] < end]
        again = [s for s in here if any(same(t, loss) for t in targets_of(s))]
        if not again:
            continue  # the same loss twice: the repeated call only goes
        if len(again) > 1 or not isinstance(again[0], ast.Assign) or len(again[0].targets) != 1:
            raise CannotFix(f"{name} is computed in a way that cannot become a sum")
        value = again[0].value
        if not same(again[0].targets[0], loss) or any(same(n, loss) for n in walked(value)):
            raise CannotFix(f"{name} is computed in a way that cannot become a sum")
        if any(same(n, loss) for s in here if s is not again[0] for n in each(s, ast.expr)):
            raise CannotFix(f"{name} is used between the backward calls, where it would become the sum")
        edits.append(write(source, value, "{loss} + {value}", loss=loss, value=value))
    return edits


def _merge_loop(source: Source, one: _Call, move_steps: bool) -> list[Edit]:
    loop = source.parents.get(one.owner)
    if not isinstance(loop, ast.For):
        raise CannotFix("only one backward call was named, and it is not the body of a loop over losses")
    if len(loop.body) != 1 or not same(loop.target, one.loss):
        return sum_over_loop(source, loop, one, move_steps)
    if loop.orelse:
        raise CannotFix("only one backward call was named, and the loop around it has an else branch")
    return instead(source, loop, [one.of(source, "sum({losses})", losses=loop.iter)])
