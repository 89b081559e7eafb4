"""The ways to part from a graph that was stored or built once, best first, and whom they leave without gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, Holder, SourceTexts
from graphdoc.finding import Remedy, edit_at, remedy_at
from graphdoc.program import bindings
from graphdoc.program.container_entries import MOST_PUTS, statements
from graphdoc.program.gathered_parameters import makes_parameter
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.rounds import made_outside_loops
from graphdoc.program.spans import loop_of, place, user_line, where
from graphdoc.remedies.carried_value import detach_behind_step, detach_where_kept
from graphdoc.remedies.constant_value import constant_at_use, constant_note, no_grad_over_maker, stored, stored_detached
from graphdoc.remedies.emptied_store import emptied_behind_step, entries_computed_again
from graphdoc.remedies.fix_places import applies, unique
from graphdoc.remedies.installed_packages import without_cache
from graphdoc.remedies.newer_value import of_this_pass
from graphdoc.remedies.recomputation import compute_again, with_what_it_is_made_of
from graphdoc.source.module import is_method_call
from graphdoc.source.paths import last_word
from graphdoc.story.older_graph import cached_with, called
from graphdoc.story.wording import folded

# A list whose entries are themselves lists or tuples of tensors: each cut in the method that puts it in.

_PUTTING = frozenset({"append", "appendleft", "insert"})


def stored_records(sources: SourceTexts, reuse: Reuse) -> list[Remedy]:
    """Cut at every statement that puts a record into the list, or a tensor into one of its records.

    The structure of the entries is what was seen in the list itself.
    """
    for holder in (h for c in reuse.carries for h in c.holders):
        record = _record(holder)
        if record is None:
            continue
        name, structure = record
        puts = _puts(sources, name, structure)
        cuts = [edit_at("detach_expression", frame, structure=inner) for frame, inner in puts]
        if 0 < len(cuts) <= MOST_PUTS:
            return stored_detached(cuts)
    return []


def _record(holder: Holder) -> tuple[str, Any] | None:
    """The name of the list and the structure of its entries; None where the holder is no tensor in a list's record."""
    if len(holder.steps) < 3 or holder.steps[-2].kind != "index" or holder.steps[-1].kind != "index":
        return None
    owner, entry = holder.steps[-3:-1]
    if owner.type not in ("list", "deque") or entry.type not in ("list", "tuple"):
        return None
    inner: Any = holder.structure.get(owner.type) if isinstance(holder.structure, dict) else None
    if isinstance(inner, list):
        inner = inner[0] if inner and all(i == inner[0] for i in inner) else None
    known = isinstance(inner, dict) and entry.type in inner and owner.kind in ("name", "attribute")
    return (owner.key, inner) if known else None


def _puts(sources: SourceTexts, name: str, structure: Any) -> Iterator[tuple[Frame, Any]]:
    """The expressions that go into such a list, or into a record of it, with their structure."""
    for file, scope in bindings.everywhere(sources, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module):
        for s in statements(scope):
            found = _put(s, name, structure)
            if found is not None:
                yield bindings.frame_of(sources, file, found[0], getattr(scope, "name", "<module>")), found[1]


def _put(statement: ast.stmt, name: str, structure: Any) -> tuple[ast.expr, Any] | None:
    if isinstance(statement, ast.Expr):
        call = statement.value
        if not is_method_call(call) or not call.args:
            return None
        puts = call.func.attr in _PUTTING and last_word(call.func.value) == name
        return (call.args[-1], structure) if puts else None
    if not isinstance(statement, ast.Assign):
        return None
    for target in statement.targets:
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            continue
        if last_word(target.value) == name:
            return statement.value, structure
        if isinstance(target.value, ast.Subscript) and last_word(target.value.value) == name:
            return statement.value, "tensor"
    return None


# The ways to part from a graph that was stored or built once, best first, and what they would take from whom.

MOST = 4
"""Ways that one finding offers: a reader has to choose between them."""


def from_storing(program: Program, reuse: Reuse) -> list[Remedy]:
    """For tensors in a store. Where they are all that trains something, computing again comes first, in words."""
    missing = reuse.lost
    storing = stored(reuse)
    cuts = [*storing, *detach_where_kept(program, reuse), *stored_records(program.sources, reuse)]
    if not reuse.behind & reuse.reached_beside:
        # Else other losses of this step learn through what the same lines make: no cut where it is made.
        cuts += [*no_grad_over_maker(program, reuse), *constant_at_use(program, reuse.carries, constant_note(reuse))]
    # Of what was stored once, before all calls, nothing more would come through behind the first step.
    once = reuse.failing is not None and all(
        made_outside_loops(program.sources, c.made, reuse.failing) for c in reuse.carries
    )
    later = detach_behind_step(program, reuse)[:1] if not once else []
    if reuse.may_move_along:
        moves = "whether it is to be a constant or to be computed again for each loss, no run tells"
        return [replace(r, open=moves) for r in (*cuts, *later)]
    if not missing:
        return [*cuts, *later]
    behind = folded(missing, beside=reuse.fresh)
    note = f"It ends the training of {behind} as well: nothing else leads there."
    if len(reuse.values) > 1:  # a cut elsewhere need not meet every value
        partly = (
            f"As far as it cuts what is stored, it ends the training of {behind} as well: nothing else leads there."
        )
    else:
        partly = note
    later_note = f"Only what is stored between two of these lines trains {behind}; the rest is numbers then."
    beside = [r for r in entries_computed_again(reuse) if applies(program.sources, r)]
    again = beside or _made_together(program, reuse) or _in_words(reuse, missing)
    return [
        *(r for r in emptied_behind_step(program, reuse) if applies(program.sources, r)),
        *again,
        *(replace(cut, note=note if cut in storing else partly) for cut in cuts),
        *(replace(cut, note=later_note) for cut in later),
    ]


def _made_together(program: Program, reuse: Reuse) -> list[Remedy]:
    """Several values that one statement has made, once, before the loop in which they are used: made there instead."""
    made: list[Frame] = []
    for c in reuse.values:
        if c.meeting is None:
            return []
        made += [c.meeting[0]] if all(f.start[:2] != c.meeting[0].start[:2] for f in made) else []
    if len(made) != 1 or loop_of(program.sources, made[0]) is not None:
        return []  # a loop makes others in each round: what it made last is not all of them
    return [r for r in compute_again(program, reuse) if r.kind == "move_into_loop"]


def from_building_once(program: Program, reuse: Reuse) -> list[Remedy]:
    """For a value that was computed once. A cut is offered only where it leaves everyone a gradient."""
    missing = reuse.lost
    meant = of_this_pass(program, reuse)
    if meant:
        return meant  # as a constant the value would go on in the place of the one that was computed for this loss
    again, more = compute_again(program, reuse), with_what_it_is_made_of(program, reuse)
    # By itself such a value would be made of what is as old. Whether all of it is to be trained through is open: a
    # constant comes before.
    alone = {str(r.args["places"]) for r in more}
    again = [r for r in again if r.kind != "move_into_loop" or "into" in r.args or str(r.args["places"]) not in alone]
    ways = [*without_cache(reuse), *again]
    context = cached_with(reuse)
    if reuse.kept_by_package:  # a cut where the pass calls the package would cut this pass as well
        out = [*ways, *more] or ([_cleared(reuse)] if context is None else [])
    elif missing:
        out = [*ways, *more] or (_in_words(reuse, missing) if context is None else [])
    else:
        cuts = constant_at_use(program, reuse.carries, constant_note(reuse)) if not is_left_out(reuse) else []
        learns = reuse.own or not reuse.meant_known or makes_parameter(reuse.carries)
        if reuse.own and more and not ways:
            cuts = [replace(r, open=_open(reuse)) for r in cuts]
        out = [*ways, *cuts, *more] if learns else [*cuts, *ways, *more]
        if is_left_out(reuse) and not out and context is None:
            out = _in_words(reuse, reuse.own or reuse.behind)
    if context is not None:
        note = "Each pass computes its matrices from the current parameters."
        args = {"place": place(context), "name": "cached"}
        out.insert(0, Remedy("remove_switch", f"leave out the cache at {where(context)}", "unsafe", note, args))
    return out


def _open(reuse: Reuse) -> str:
    """That the first call has trained something through the value, which a constant ends and a new one would not."""
    name = next((n for c in reuse.carries if (n := called(c))), "the value")
    whose = folded(reuse.own, beside=reuse.fresh)
    return f"the first call has trained {whose} through {name}, too: whether every call is to do so, no run tells"


def is_left_out(reuse: Reuse) -> bool:
    """Whether a value that trains something is only added to the loss: as a constant it would do nothing at all."""
    return bool(reuse.own or not reuse.meant_known) and any(c.term and c.behind for c in reuse.carries)


def kept_places(reuse: Reuse) -> set[tuple[str, int]]:
    """File and line of the statements that keep the values under their names."""
    return {(f.file, f.line) for c in reuse.carries for f in c.kept_at()}


def _in_words(reuse: Reuse, missing: set[str]) -> list[Remedy]:
    """What no patch can do: the inputs are to be kept instead of the result, and the result computed in the update."""
    made: list[Frame] = []
    kept: list[Frame] = []
    for c in reuse.values:
        frame = user_line(c.made)
        if frame is None:
            continue
        if all(f.start[:2] != frame.start[:2] for f in made):
            made.append(frame)
        kept += [f for f in c.kept_at()[:1] if f not in kept]
    if not made:
        return []
    name = next((n for c in reuse.carries if (n := called(c))), "the value")
    where_made = " and ".join(where(f) for f in made[:2])
    whose = folded(missing, beside=reuse.fresh)
    term = is_left_out(reuse) and not reuse.lost
    why = f"{whose} {'gets' if len(missing) == 1 else 'get'} gradient through nothing else, and only"
    if term:
        why = "It is a term of this loss, which as a constant would add nothing to any gradient: only"
    make = "makes" if len(made) == 1 else "make"
    title = f"keep what {where_made} {make} {name} from, and compute it again in each update"
    note = f"{why} a computation with the current weights can train {whose if term else 'them'}."
    return [*remedy_at((kept or made)[0], "compute_in_update", title, "display", note)]


def _cleared(reuse: Reuse) -> Remedy:
    """What no patch can do where a package keeps the values: it has to let go of them before the pass."""
    name = next((n for c in reuse.carries if (n := called(c))), "what it keeps")
    taken = next((f for c in reuse.carries for f in c.using[:1]), None)
    at = f"{where(taken)} " if taken is not None else "the pass "
    title = f"have the package clear {name} before each pass that is differentiated"
    note = f"{at}takes what was kept in an earlier pass; cleared, it is computed with the weights of now."
    args = {"place": place(taken)} if taken is not None else {}
    return Remedy("clear_what_is_kept", title, "display", note, args)


def sensible(sources: SourceTexts, remedies: list[Remedy]) -> tuple[Remedy, ...]:
    """Those that can be written, each once, and no more than a reader can weigh."""
    found = [r for r in unique(remedies) if not r.is_complete or applies(sources, r)]
    return tuple(found[:MOST])
