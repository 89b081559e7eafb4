"""Compute a value again behind an optimizer step, so that the loss uses the weights of now.

The statements that compute it are moved behind the step, with what they go through on the way to the loss; one whose
result is also used before the step is copied and stays where it is, and so does all of it where step and backward
stand in a branch. What stands in a block that only sets a mode (``with autocast():``) runs in such a block again. Of a
tuple that is copied only what the loss takes is bound again.

Args:
    places: the statements that ran with the old weights.
    after: the step (or another write into the weights).
    backward: optional; the backward call that needs the value. Only what it needs is computed again.
    constants: optional; those of ``places`` whose value is no more than data for the loss. They do not run again: what
        is computed again takes what they gave, detached.
"""

from __future__ import annotations

import ast
from collections.abc import Set

from graphdoc.fixes.between_losses import detach_reads
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, required, statement
from graphdoc.fixes.program_slices import Stretch, binds, changes, reads, seeds_of, stretch, wanted_behind
from graphdoc.fixes.run_again import kept_as_drawn, opened, regrouped, taken_away, translates, unbound
from graphdoc.source.edits import copied, insert_after
from graphdoc.source.module import Source, each
from graphdoc.source.paths import key
from graphdoc.source.places import Edit


@kind("recompute_after", runs_again=True)
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, after = statement(sources, required(args, "after"))
    seeds = seeds_of(sources, args, source, after)
    constants = [n for n, at in zip(seeds, args["places"], strict=True) if at in (args.get("constants") or ())]
    backward = statement(sources, args["backward"])[1] if args.get("backward") is not None else None
    found, within = opened(source, stretch(source, seeds, after, backward), seeds)
    chosen = [i for i in _chosen(found, backward) if found.block[i] not in constants]
    copies = [i for i in chosen if not _movable(found, chosen, i)]
    if kept := kept_as_drawn(sources, source, found, copies, backward):
        chosen = [i for i in _chosen(found, backward, kept) if found.block[i] not in constants]
    if not chosen:
        raise CannotFix("nothing that the forward has bound is read between the step and the backward call")
    anchor = found.block[found.anchor]
    _check(found, chosen, _taken(after, anchor))
    spared = _spared(source, found, chosen, backward)
    again = {found.block[i]: unbound(source, found.block[i], spared.get(i, set())) for i in chosen}
    if constants:
        _detach(source, again, {n for c in constants for n in binds(c)})
    texts = [(node, copied(source, node, edits)) for node, edits in again.items()]
    moved = [found.block[i] for i in chosen if _movable(found, chosen, i)]
    return insert_after(source, anchor, regrouped(source, texts, within)) + taken_away(source, moved, within)


def _chosen(found: Stretch, backward: ast.stmt | None, kept: Set[int] = frozenset()) -> list[int]:
    """The statements to run again: those through which the value reaches what is read behind the anchor.

    ``kept`` are statements whose value stays as it is.
    """
    tainted: set[str] = set()
    passed: list[int] = []
    within: set[str] = set()
    for i in range(found.seeds[0], found.anchor):
        node = found.block[i]
        touched = i not in kept and (i in found.seeds or bool(reads(node) & tainted))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            if touched:
                passed.append(i)
                tainted |= binds(node)
            else:
                tainted -= binds(node)
        elif touched and isinstance(node, ast.AugAssign):
            passed.append(i)
            tainted.add(key(node.target))
        elif i in found.seeds:
            raise CannotFix("the forward is in a loop, a branch or a call of its own")
        elif touched:
            within |= changes(node)
    live = wanted_behind(found.following, backward, tainted | within)
    chosen: list[int] = []
    for i in reversed(passed):
        node = found.block[i]
        bound = {key(node.target)} if isinstance(node, ast.AugAssign) else binds(node)
        if bound & live:
            chosen.insert(0, i)
            live |= reads(node) & tainted
    if not chosen and (behind := live & within - tainted):
        raise CannotFix(f"{min(behind)} is computed from it in a branch or a loop")
    return chosen


def _taken(step: ast.stmt, anchor: ast.stmt) -> set[str]:
    """What the step itself reads: in its own statement, and what the loops around it go over."""
    loops = (n for n in each(anchor, ast.For, ast.AsyncFor))
    around = [n.iter for n in loops if any(m is step for m in ast.walk(n))]
    return set().union(*(reads(n) for n in (step, *around)))


def _check(found: Stretch, chosen: list[int], taken: set[str]) -> None:
    """Running the statements later must mean the same, but for the weights; the step was made with what is taken."""
    fresh: set[str] = set()
    for i in chosen:
        node = found.block[i]
        if used := binds(node) & taken:
            raise CannotFix(f"the step is made with {min(used)}, which would then be that of a second one")
        if isinstance(node, ast.AugAssign) and key(node.target) not in fresh:
            raise CannotFix(f"{key(node.target)} would be added to twice")
        if any(isinstance(n, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for n in ast.walk(node)):
            raise CannotFix("the forward does more than compute a value")
        inputs = reads(node) - fresh
        later = {n for j in range(i + 1, found.anchor) if j not in chosen for n in changes(found.block[j])}
        if later & inputs:
            raise CannotFix("what the forward is computed from may have changed by then")
        # The new value must not take the place of another one that is still wanted under its name.
        if other := wanted_behind(found.following, None, later & binds(node)):
            raise CannotFix(f"{min(other)} has another value by then")
        fresh |= binds(node)


def _spared(source: Source, found: Stretch, chosen: list[int], backward: ast.stmt | None) -> dict[int, set[str]]:
    """For each statement that is copied, the names that keep their value: nothing that runs again needs a new one."""
    if source.tree is None or translates(source.tree):
        return {}
    live = wanted_behind(found.following, backward, {n for i in chosen for n in changes(found.block[i])})
    spared: dict[int, set[str]] = {}
    for i in reversed(chosen):
        node = found.block[i]
        if not _movable(found, chosen, i):
            spared[i] = binds(node) - live
        live |= reads(node)
    return spared


def _detach(source: Source, again: dict[ast.stmt, list[Edit]], constants: set[str]) -> None:
    """Have what the statements that run again read of the constants detached."""
    reading = {node: detach_reads(source, node, constants) for node in again}
    if not any(reading.values()):
        raise CannotFix("what is computed again does not read the constant by its name")
    for node, edits in reading.items():
        again[node] += edits


def _movable(found: Stretch, chosen: list[int], index: int) -> bool:
    """Whether nothing that stays in place reads what the statement binds."""
    if found.branched:
        return False
    node = found.block[index]
    bound = {key(node.target)} if isinstance(node, ast.AugAssign) else binds(node)
    staying = [found.block[j] for j in range(index + 1, found.anchor + 1) if j not in chosen]
    copied = [found.block[j] for j in chosen if j > index and not _movable(found, chosen, j)]
    return not any(reads(s) & bound for s in (*staying, *copied))
