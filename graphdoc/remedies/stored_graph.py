"""The ways to part from a graph that was stored or built once, best first, and what they would take from whom."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.loops import loop_of
from graphdoc.program.made_each_round import made_outside_loops
from graphdoc.program.made_parameters import makes_parameter
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.program.stored_values import kept_at
from graphdoc.program.value_reads import meeting
from graphdoc.remedies.carried_value import detach_behind_step, detach_where_kept
from graphdoc.remedies.constant_value import constant_at_use
from graphdoc.remedies.emptied_store import emptied_behind_step
from graphdoc.remedies.filled_store import no_grad_over_maker, stored
from graphdoc.remedies.lost_gradient import lost
from graphdoc.remedies.package_cache import without_cache
from graphdoc.remedies.recomputation import compute_again, with_what_it_is_made_of
from graphdoc.remedies.recomputed_entries import entries_computed_again
from graphdoc.remedies.stored_record import stored_records
from graphdoc.remedies.unread_value import unread_value
from graphdoc.remedies.written_fixes import applies, unique
from graphdoc.story.older_graph import called, distinct_carries
from graphdoc.story.older_graph_places import cached_with
from graphdoc.story.wording import folded

MOST = 4
"""Ways that one finding offers: a reader has to choose between them."""


def from_storing(program: Program, reuse: Reuse, constant: str) -> list[Remedy]:
    """For tensors in a store. Where they are all that trains something, computing again comes first, in words."""
    missing = lost(program.evidence.fresh_reaches, reuse)
    storing = stored(program.sources, program.nodes, reuse)
    cuts = [*storing, *detach_where_kept(program, reuse), *stored_records(program.sources, reuse)]
    if not reuse.behind & reuse.reached_beside:
        # Else other losses of this step learn through what the same lines make: no cut where it is made.
        cuts += [*no_grad_over_maker(program, reuse), *constant_at_use(program, reuse.carries, constant)]
    makers = [program.node(c.producer) for c in reuse.carries]
    # Of what was stored once, before all calls, nothing more would come through behind the first step.
    once = reuse.failing is not None and all(made_outside_loops(program.sources, m, reuse.failing) for m in makers)
    later = detach_behind_step(program, reuse)[:1] if not once else []
    if reuse.may_move_along:
        moves = "whether what is compared with it is to draw it along, computed anew each time, no run tells"
        return [replace(r, open=moves) for r in (*cuts, *later)]
    if not missing:
        return [*cuts, *later]
    untouched = program.evidence.fresh_reaches
    behind = folded(missing, beside=untouched)
    note = f"It ends the training of {behind} as well: nothing else leads there."
    if len(distinct_carries(program.nodes, reuse.carries)) > 1:  # a cut elsewhere need not meet every value
        partly = (
            f"As far as it cuts what is stored, it ends the training of {behind} as well: nothing else leads there."
        )
    else:
        partly = note
    later_note = f"Only what is stored between two of these lines trains {behind}; the rest is numbers then."
    beside = [r for r in entries_computed_again(program, reuse) if applies(program.sources, r)]
    again = beside or _made_together(program, reuse) or _in_words(program, reuse, missing)
    return [
        *(r for r in emptied_behind_step(program, reuse) if applies(program.sources, r)),
        *again,
        *(replace(cut, note=note if cut in storing else partly) for cut in cuts),
        *(replace(cut, note=later_note) for cut in later),
    ]


def _made_together(program: Program, reuse: Reuse) -> list[Remedy]:
    """Several values that one statement has made, once, before the loop in which they are used: made there instead."""
    made: list[Frame] = []
    for c in distinct_carries(program.nodes, reuse.carries):
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        pair = meeting(producer, consumer) if producer is not None and consumer is not None else None
        if pair is None:
            return []
        made += [pair[0]] if all((f.file, f.line) != (pair[0].file, pair[0].line) for f in made) else []
    if len(made) != 1 or loop_of(program.sources, made[0]) is not None:
        return []  # a loop makes others in each round: what it made last is not all of them
    return [r for r in compute_again(program, reuse) if r.kind == "move_into_loop"]


def from_building_once(program: Program, reuse: Reuse, constant: str) -> list[Remedy]:
    """For a value that was computed once. A cut is offered only where it leaves everyone a gradient."""
    missing = lost(program.evidence.fresh_reaches, reuse)
    meant = unread_value(program, reuse)
    if meant:
        return meant  # as a constant the value would go on in the place of the one that was computed for this loss
    again, more = compute_again(program, reuse), with_what_it_is_made_of(program, reuse)
    # By itself such a value would be made of what is as old. Whether all of it is to be trained through is open: a
    # constant comes before.
    alone = {str(r.args["places"]) for r in more}
    again = [r for r in again if r.kind != "move_into_loop" or "into" in r.args or str(r.args["places"]) not in alone]
    ways = [*without_cache(program, reuse), *again]
    context = cached_with(program.sources, program.nodes, reuse)
    if reuse.kept_by_package:  # a cut where the pass calls the package would cut this pass as well
        out = [*ways, *more] or ([_cleared(program, reuse)] if context is None else [])
    elif missing:
        out = [*ways, *more] or (_in_words(program, reuse, missing) if context is None else [])
    else:
        cuts = constant_at_use(program, reuse.carries, constant) if not is_left_out(reuse) else []
        learns = reuse.own or not reuse.meant_known or makes_parameter(program.sources, program.nodes, reuse.carries)
        if reuse.own and more and not ways:
            cuts = [replace(r, open=_open(program, reuse)) for r in cuts]
        out = [*ways, *cuts, *more] if learns else [*cuts, *ways, *more]
        if is_left_out(reuse) and not out and context is None:
            out = _in_words(program, reuse, reuse.own or reuse.behind)
    if context is not None:
        note = "Each pass computes its matrices from the current parameters."
        args = {"place": place(context), "name": "cached"}
        out.insert(0, Remedy("remove_context", f"leave out the cache at {where(context)}", "unsafe", note, args))
    return out


def _open(program: Program, reuse: Reuse) -> str:
    """That the first call has trained something through the value, which a constant ends and a new one would not."""
    name = next((n for c in reuse.carries if (n := called(program.sources, program.nodes, c))), "the value")
    whose = folded(reuse.own, beside=program.evidence.fresh_reaches)
    return f"the first call has trained {whose} through {name}, too: whether every call is to do so, no run tells"


def is_left_out(reuse: Reuse) -> bool:
    """Whether a value that trains something is only added to the loss: as a constant it would do nothing at all."""
    return bool(reuse.own or not reuse.meant_known) and any(c.term and c.behind for c in reuse.carries)


def kept_places(program: Program, reuse: Reuse) -> set[tuple[str, int]]:
    """File and line of the statements that keep the values under their names."""
    out: set[tuple[str, int]] = set()
    for c in reuse.carries:
        producer = program.node(c.producer)
        if producer is not None:
            out |= {
                (f.file, f.line)
                for f in kept_at(program.sources, program.nodes, program.raised, c.tensor.holders, producer)
            }
    return out


def _in_words(program: Program, reuse: Reuse, missing: set[str]) -> list[Remedy]:
    """What no patch can do: the inputs are to be kept instead of the result, and the result computed in the update."""
    made: list[Frame] = []
    kept: list[Frame] = []
    for c in distinct_carries(program.nodes, reuse.carries):
        producer = program.node(c.producer)
        frame = innermost_user(producer.stack) if producer is not None else None
        if producer is None or frame is None:
            continue
        if all((f.file, f.line) != (frame.file, frame.line) for f in made):
            made.append(frame)
        kept += [
            f
            for f in kept_at(program.sources, program.nodes, program.raised, c.tensor.holders, producer)[:1]
            if f not in kept
        ]
    if not made:
        return []
    name = next((n for c in reuse.carries if (n := called(program.sources, program.nodes, c))), "the value")
    where_made = " and ".join(where(f) for f in made[:2])
    whose = folded(missing, beside=program.evidence.fresh_reaches)
    term = is_left_out(reuse) and not lost(program.evidence.fresh_reaches, reuse)
    why = (
        "It is a term of this loss, which as a constant would add nothing to any gradient: only"
        if term
        else f"{whose} {'gets' if len(missing) == 1 else 'get'} gradient through nothing else, and only"
    )
    return [
        Remedy(
            "compute_in_update",
            f"keep what {where_made} make{'s' if len(made) == 1 else ''} {name} from, and compute it again in each "
            "update",
            "display",
            f"{why} a computation with the weights of now can train {whose if term else 'them'}.",
            {"place": place((kept or made)[0])},
        )
    ]


def _cleared(program: Program, reuse: Reuse) -> Remedy:
    """What no patch can do where a package keeps the values: it has to let go of them before the pass."""
    name = next((n for c in reuse.carries if (n := called(program.sources, program.nodes, c))), "what it keeps")
    takers = [program.node(c.consumer) for c in reuse.carries]
    uses = [innermost_user(t.stack) for t in takers if t is not None]
    taken = next((f for f in uses if f is not None), None)
    at = f"{where(taken)} " if taken is not None else "the pass "
    return Remedy(
        "clear_what_is_kept",
        f"have the package clear {name} before each pass that is differentiated",
        "display",
        f"{at}takes what was kept in an earlier pass; cleared, it is computed with the weights of now.",
        {"place": place(taken)} if taken is not None else {},
    )


def sensible(sources: SourceTexts, remedies: list[Remedy]) -> tuple[Remedy, ...]:
    """Those that can be written, each once, and no more than a reader can weigh."""
    found = [r for r in unique(remedies) if r.safety == "display" or applies(sources, r)]
    return tuple(found[:MOST])
