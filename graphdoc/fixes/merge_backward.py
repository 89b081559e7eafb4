"""Merge backward calls of one block into one: ``(a + b).backward()`` at the last, the earlier ones go.

With a single place inside ``for loss in losses: loss.backward()`` the loop becomes ``sum(losses).backward()``; in a
loop that does more, the losses are summed up and the sum is differentiated behind it.

Args:
    places: the places of the ``X.backward(...)`` calls.
    move_steps: True moves a ``step()`` that stands between them behind the merged call (otherwise it is a reason to
        refuse, as a ``zero_grad()`` is).
"""

from __future__ import annotations

import ast
from itertools import pairwise

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, place, required
from graphdoc.fixes.program_slices import check_passed, reads
from graphdoc.fixes.summing import sum_over_loop
from graphdoc.source.edits import copied, delete, insert_after, instead, without_flag, write, written
from graphdoc.source.effects import READS_GRADIENTS, method_of
from graphdoc.source.module import Source, each
from graphdoc.source.paths import key, same, targets_of
from graphdoc.source.places import Edit

_KEPT = {"create_graph"}


@kind("merge_backward")
def edit(sources: Sources, args: Args) -> list[Edit]:
    found = [_backward(sources, p) for p in required(args, "places")]
    if not found:
        raise CannotFix("no backward call was named")
    source = found[0][0]
    if any(s is not source for s, _, _ in found):
        raise CannotFix("the backward calls stand in different files")
    unique = {id(owner): (node, owner) for _, node, owner in found}
    pairs = sorted(unique.values(), key=lambda p: source.span(p[1])[0])
    if len(pairs) == 1:
        return _merge_loop(source, *pairs[0], bool(args.get("move_steps")))
    blocks = [source.node_block(owner) for _, owner in pairs]
    if any(b is None or blocks[0] is None or b[0] is not blocks[0][0] for b in blocks):
        raise CannotFix("the backward calls do not stand in one block")
    block = blocks[0][0]  # type: ignore[index]
    indices = [b[1] for b in blocks if b is not None]
    between = [s for s in block[indices[0] : indices[-1]] if all(s is not owner for _, owner in pairs)]
    return _merge(source, pairs, between, args)


def _backward(sources: Sources, at: object) -> tuple[Source, ast.Call, ast.stmt]:
    source, node = call(sources, at)
    owner = source.node_owner(node)
    if not (isinstance(node.func, ast.Attribute) and node.func.attr == "backward"):
        raise CannotFix(f"{place(at).file}:{node.lineno} does not call backward on a loss")
    if not isinstance(owner, ast.Expr) or owner.value is not node:
        raise CannotFix("the backward call is part of a larger statement")
    allowed = {"retain_graph", *_KEPT}
    if node.args or any(k.arg not in allowed for k in node.keywords):
        raise CannotFix("a backward call with its own gradient or inputs cannot be merged")
    return source, node, owner


def _merge(source: Source, pairs: list[tuple[ast.Call, ast.stmt]], between: list[ast.stmt], args: Args) -> list[Edit]:
    last_call, last = pairs[-1]
    losses = [node.func.value for node, _ in pairs if isinstance(node.func, ast.Attribute)]
    same_name = len({key(loss) for loss in losses}) == 1
    used = set() if same_name else {n for loss in losses[:-1] for n in reads(loss)}
    edits: list[Edit] = []
    moved: list[ast.stmt] = []
    for statement in between:
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
        edits += _accumulate(source, pairs, between, losses[0])
    else:
        terms = {f"loss{i}": loss for i, loss in enumerate(losses)}
        edits.append(write(source, losses[-1], " + ".join(f"{{{t}}}" for t in terms), **terms))
    for _, owner in pairs[:-1]:
        edits += delete(source, owner)
    edits += without_flag(source, last_call)
    return edits + insert_after(source, last, [copied(source, s) for s in moved])


def _accumulate(
    source: Source, pairs: list[tuple[ast.Call, ast.stmt]], between: list[ast.stmt], loss: ast.expr
) -> list[Edit]:
    """One name for every loss: each later ``loss = value`` becomes ``loss = loss + value``."""
    name = key(loss)
    stops = [source.span(owner)[0] for _, owner in pairs]
    edits: list[Edit] = []
    for begin, end in pairwise(stops):
        here = [s for s in between if begin < source.span(s)[0] < end]
        again = [s for s in here if any(same(t, loss) for t in targets_of(s))]
        if not again:
            continue  # the same loss twice: the repeated call only goes
        if len(again) > 1 or not isinstance(again[0], ast.Assign) or len(again[0].targets) != 1:
            raise CannotFix(f"{name} is computed in a way that cannot become a sum")
        value = again[0].value
        if not same(again[0].targets[0], loss) or any(same(n, loss) for n in ast.walk(value)):
            raise CannotFix(f"{name} is computed in a way that cannot become a sum")
        if any(same(n, loss) for s in here if s is not again[0] for n in each(s, ast.expr)):
            raise CannotFix(f"{name} is used between the backward calls, where it would become the sum")
        edits.append(write(source, value, "{loss} + {value}", loss=loss, value=value))
    return edits


def _merge_loop(source: Source, node: ast.Call, owner: ast.stmt, move_steps: bool) -> list[Edit]:
    loop = source.parents.get(owner)
    loss = node.func.value  # type: ignore[attr-defined]
    kept = {str(k.arg): k.value for k in node.keywords if k.arg in _KEPT}
    if not isinstance(loop, ast.For):
        raise CannotFix("only one backward call was named, and it is not the body of a loop over losses")
    if len(loop.body) != 1 or not same(loop.target, loss):
        return sum_over_loop(source, loop, node, owner, kept, move_steps)
    if loop.orelse:
        raise CannotFix("only one backward call was named, and the loop around it has an else branch")
    keywords = ", ".join(f"{k}={{{k}}}" for k in kept)
    return instead(source, loop, [written(source, f"sum({{losses}}).backward({keywords})", losses=loop.iter, **kept)])
