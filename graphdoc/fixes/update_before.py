"""Make a whole update before a forward pass, so that the later loss uses the weights of now."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, required, statement
from graphdoc.fixes.program_slices import Stretch, changes, check_passed, reads, seeds_of, stretch
from graphdoc.source.edits import copied, delete, insert_before
from graphdoc.source.effects import READS_GRADIENTS, is_bare_call, method_of
from graphdoc.source.paths import bare_call, is_name, key
from graphdoc.source.places import Edit

_OF_UPDATES = READS_GRADIENTS | frozenset({"backward", "step", "zero_grad", "update", "scale", "unscale_"})


@kind("update_before")
def update_before(sources: Sources, args: Args) -> list[Edit]:
    """Make a whole update before a forward pass, so that the later loss uses the weights of now.

    The update is the backward call of the other loss, the calls up to the step, and a clearing of the same gradients
    beside them; statements behind the forward that this loss is made of come along. What lies between stays and is
    crossed: it must do nothing that the update uses, and use nothing but weights that the update changes.

    Args:
        places: the statements that ran with the old weights.
        steps: the steps that change these weights, each of an update of its own.
        busy: lines of this file at which backward calls, steps and clearings were made in the run.
    """
    steps = [statement(sources, p) for p in required(args, "steps")]
    source, step = steps[-1]
    found = stretch(source, seeds_of(sources, args, source, step), step)
    first = found.seeds[0]
    moved = sorted({i for _, s in steps for i in _update(found, s)})
    if moved[0] <= first:
        raise CannotFix("the update's own backward call stands before the forward already")
    moved = _with_loss(found, first, moved)
    crossed = [found.block[i] for i in range(first, moved[-1]) if i not in moved]
    _check([found.block[i] for i in moved], crossed, frozenset(args.get("busy") or ()))
    edits = insert_before(source, found.block[first], [copied(source, found.block[i]) for i in moved])
    return edits + [e for i in moved for e in delete(source, found.block[i])]


def _update(found: Stretch, step: ast.stmt) -> list[int]:
    """The statements from the backward call (and the clearing before it) to the step (and the clearing behind it)."""
    block = found.block
    if step not in block:
        raise CannotFix("the step is in a branch or a loop of its own")
    end = block.index(step)
    mine = _optimizer(block[end])
    if not mine:
        raise CannotFix("the step is part of a larger statement")
    start = end
    while start > 0 and method_of(block[start])[0] != "backward":
        start -= 1
        if not is_bare_call(block[start]):
            raise CannotFix("the backward call and the step of the other loss do not stand together")
    if method_of(block[start])[0] != "backward":
        raise CannotFix("no backward call stands before the step")
    while start > 0 and method_of(block[start - 1])[0] == "zero_grad":
        start -= 1
    if end + 1 < len(block) and method_of(block[end + 1])[0] == "zero_grad" and _optimizer(block[end + 1]) == mine:
        end += 1
    return list(range(start, end + 1))


def _optimizer(node: ast.stmt) -> str:
    on = method_of(node)[1]
    return key(on) if on is not None else ""


def _with_loss(found: Stretch, first: int, moved: list[int]) -> list[int]:
    """The statements behind the forward that compute what the update uses, with it.

    Raises:
        CannotFix: the other loss is itself made of the forward that the update is to precede.
    """
    wanted = {n for i in moved for n in reads(found.block[i])}
    out = list(moved)
    for i in range(moved[0] - 1, first - 1, -1):
        node = found.block[i]
        if not changes(node) & wanted:
            continue
        if i in found.seeds or not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            raise CannotFix("the other loss is made of the same forward pass")
        out.insert(0, i)
        wanted |= reads(node)
    return out


def _check(moved: list[ast.stmt], crossed: list[ast.stmt], busy: frozenset[int]) -> None:
    """Neither uses what the other writes, but for the weights and gradients that the update is there for."""
    used = {n for s in moved for n in reads(s)}
    check_passed(crossed, used, {n for s in moved for n in changes(s)}, _OF_UPDATES)
    for node in crossed:
        text = ast.unparse(node).split("\n")[0]
        if busy & {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}:
            raise CannotFix(f"`{text}` takes part in an update, and would come after this one")
        if is_bare_call(node) and not _only_tells(node, used):
            raise CannotFix(f"`{text}` stands between, and may change what the update uses")


def _only_tells(node: ast.stmt, used: set[str]) -> bool:
    """Whether a call that stands alone prints, or puts into a list that the update has no use for."""
    method, on = method_of(node)
    if on is not None:
        return method in ("append", "extend", "update") and key(on) not in used
    call = bare_call(node)
    return call is not None and is_name(call.func, "print")
