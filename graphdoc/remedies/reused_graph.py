"""The ways to part from an older graph, best first, for each kind of reuse; second forwards among them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.model import Safety
from graphdoc.program.bindings import assignments, decided_at, names_in, statement_at
from graphdoc.program.calls_in_order import Coupling
from graphdoc.program.carried_names import bound_names
from graphdoc.program.container_entries import user_frames
from graphdoc.program.expression_values import written_into_given
from graphdoc.program.inner_gradient import Entered, entered, is_inner_step, is_second_order
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.reuse import CONSTANT, Reuse, Role, SlicedBuffer
from graphdoc.program.spans import in_function, innermost_user, place, user_line, where
from graphdoc.remedies.carried_value import detach_where_kept, from_carrying
from graphdoc.remedies.constant_value import (
    constant_at_use,
    constant_note,
    in_earlier_loss,
    stored,
    value_with_its_graph,
)
from graphdoc.remedies.emptied_store import emptied_behind_step, only_grows
from graphdoc.remedies.fix_places import again_behind, applies, flag_set, left_open
from graphdoc.remedies.installed_packages import cleared_by_call
from graphdoc.remedies.merged_backward import can_merge, merge
from graphdoc.remedies.newer_value import behind_call, of_this_update
from graphdoc.remedies.recomputation import compute_again, repeated, result_anew, start_anew
from graphdoc.remedies.stored_graph import from_building_once, from_storing, sensible
from graphdoc.story.wording import all_told, folded, listing

# An ``autograd.grad`` inside a forward pass frees what the outer loss still needs: its graph is kept.


def keep_inner_graph(sources: SourceTexts, failing: Event, freeing: Event) -> tuple[Remedy, ...]:
    """Keep the graph of the inner call; where the loss is built on its result, as a graph of its own first."""
    frame = innermost_user(freeing.stack)
    if frame is None:
        return ()
    built_on_it, step = is_second_order(sources, freeing, failing), is_inner_step(sources, freeing)
    left = failing.kind == "backward" and not freeing.create_graph and not step
    left = left and entered(sources, freeing, failing, None) is not Entered.AS_NUMBER
    note = "Its result has a graph already; the one that it was computed from then stays as well."
    if not freeing.create_graph:
        note = "Its result stays a number for the loss (first order): gradient flows through what else the loss is "
        note += "made of. Nothing is stepped in between."
    order = "whether the loss is to be differentiated through its result as well, no run tells" if left else ""
    safety: Safety = "unsafe" if built_on_it else "safe"
    first_order = flag_set(frame, "keep the graph in the autograd.grad call", note, safety, left=order)
    if not built_on_it and (freeing.create_graph or not step):
        return (first_order,)
    moves = step or is_inner_step(sources, freeing, of_data=True)
    inner = "whether the inner step is to be differentiated as well (second order), no run tells" if moves else ""
    note = "The result gets a graph, so the loss is differentiated through it as well (second order), and the graph "
    note += "stays for whatever else needs it."
    second_order = flag_set(frame, "compute the gradient", note, "unsafe", inner, "create_graph")
    second_order = replace(second_order, title=f"{second_order.title} with create_graph=True")
    return (first_order, second_order) if step else (second_order, first_order)


# Computing out of place what a function writes into a tensor that it was given, with a graph.


def result_of_its_own(program: Program, reuse: Reuse) -> list[Remedy]:
    """A tensor of its own for what is given back: the caller's keeps its numbers, and gets no graph."""
    frames = written_into_given(program, reuse)
    edits = [edit_at("out_of_place", f, caller=True) for f in frames]
    lines = ", ".join(where(f) for f in frames[:3])
    note = "What the function was given keeps its numbers, which the write changed, and has no graph."
    return together(edits, f"compute out of place, at {lines}", "unsafe", note)


# A forward pass of its own for the second of two losses, behind the step that the first one makes.

MOST_SEEDS = 8


def second_forward(program: Program, reuse: Reuse) -> list[Remedy]:
    """Compute what both losses share once more behind the step in between, for the loss that comes after it.

    Only where one function makes the first call, the step and the second call in this order, and the step moves
    something that the second loss reaches.
    """
    calls = _in_one_function(reuse) if not reuse.only_heads_stepped else None
    if calls is None:
        return []
    step, failing = calls
    seeds = _shared(program, reuse, step)
    if not seeds:
        return []
    title = f"run the forward pass again for the second loss, after {where(step)}"
    note = "The second loss is computed with the weights as they are after that step, and its gradient is theirs."
    return [again_behind(seeds, step, failing, title, note)]


def _in_one_function(reuse: Reuse) -> tuple[Frame, Frame] | None:
    """The last step between the two calls and the failing call, as the innermost function that makes all three has
    them."""
    if reuse.calls is None:
        return None
    steps = [e for e in reuse.journal.between(*reuse.calls) if e.kind == "step"]
    for failing in user_frames(reuse.calls[1].stack):
        first = in_function(user_frames(reuse.calls[0].stack), failing)
        step = in_function(user_frames(steps[-1].stack), failing) if steps else None
        if first is not None and step is not None and first.line < step.line < failing.line:
            return step, failing
    return None


def _shared(program: Program, reuse: Reuse, step: Frame) -> list[Frame]:
    """The statements above the step that made the shared values and what they were made from, as far as it has a
    graph."""
    graphs = {t.path for t in program.tensors if t.requires_grad and not t.is_leaf and t.function == step.function}
    todo: list[str] = []
    seeds: dict[int, Frame] = {}
    for c in reuse.carries:
        pair = c.meeting
        if pair is None or not pair[0].in_function_of(step):
            return []
        held = [h.path for h in c.holders if h.exact]
        if not held and bound_names(program.sources, pair[0]):
            # Its names are bound anew by now, as by ``loss = loss.mean()``: the statement is known all the same.
            seeds.setdefault(pair[0].line, pair[0])
            held = names_in(_value(program.sources, pair[0]))
        todo += held
    seen: set[str] = set()
    while todo and len(seeds) < MOST_SEEDS:
        name = todo.pop()
        if name in seen or name not in graphs:
            continue
        seen.add(name)
        for statement, value in assignments(program.sources, step, name)[:1]:
            seeds.setdefault(statement.line, statement)
            todo += names_in(value)
    return [seeds[line] for line in sorted(seeds)]


def _value(sources: SourceTexts, frame: Frame) -> ast.expr | None:
    """What the assignment around this place assigns."""
    owner = statement_at(sources, frame)
    return owner.value if isinstance(owner, ast.Assign) else None


# A tensor of its own for every slice of a buffer that several losses share.


def own_rows(buffer: SlicedBuffer | None) -> list[Remedy]:
    """Make a list of rows of the buffer."""
    note = "The numbers stay as they are. Each loss has the graph of its own row; the other rows' part of the graph "
    note += "got nothing but zeros from it."
    if buffer is None:
        return []
    title = f"keep each row of {buffer.path} in a tensor of its own, for {where(buffer.read)}"
    return [Remedy("rows_of_buffer", title, "safe", note, {"read": place(buffer.read)})]


# The ways to part from an older graph, best first, for each kind of reuse.


def remedies_for(program: Program, reuse: Reuse) -> tuple[Remedy, ...]:
    """All ways to part that make sense for this reuse, best first; the trial run decides between them.

    What the older values are to the loss decides first, then how they live.
    """
    if reuse.inner and reuse.lifetime in (Lifetime.RESULT, Lifetime.SAME_PASS) and reuse.role not in CONSTANT:
        return kept_for_outer(program, reuse)
    ways = _with_emptied(program, reuse, next(ways for holds, ways in _WAYS if holds(reuse))(program, reuse))
    if reuse.adds_up:
        ways = [left_open(r, "whether each iteration is to add to what the last one left, no run tells") for r in ways]
    ways = _with_cleared(program, reuse, ways)
    found = sensible(program.sources, ways)
    by_hand = reuse.two_losses_of_one_pass and reuse.stepped and not reuse.only_heads_stepped
    return found or ((_ONE_PASS_EACH,) if by_hand and not reuse.inner else ())


_ONE_PASS_EACH = Remedy(
    "compute_again",
    "run what both losses share in two passes, one for each loss",
    "display",
    "Each call of `backward()` then has a graph of its own. Where one batch holds the data of both losses, split it "
    "before the pass, and not the result after it.",
)
"""Where an optimizer steps between the two calls, and no edit makes the second pass."""


def _with_cleared(program: Program, reuse: Reuse, ways: list[Remedy]) -> list[Remedy]:
    """The ways, and the call by which a package clears what it keeps of earlier iterations; it says more than that the
    value is to be computed again."""
    cleared = cleared_by_call(program, reuse)
    if not cleared:
        return ways
    return [*(r for r in ways if r.kind not in ("compute_in_update", cleared[0].kind)), *cleared]


def _with_emptied(program: Program, reuse: Reuse, ways: list[Remedy]) -> list[Remedy]:
    """The ways to cut what a list that only grows still holds of earlier updates, and to let go of it, which is first:
    as constants its entries would stay in every later loss. Both may be meant."""
    if reuse.lifetime not in (Lifetime.RECURS, Lifetime.STORED) or not only_grows(program, reuse):
        return ways
    emptied = [r for r in emptied_behind_step(program, reuse) if applies(program.sources, r)]
    if any(r in ways for r in emptied):
        return ways
    stays = "whether what earlier updates have stored is to stay in the loss, no run tells"
    return [left_open(r, stays) for r in (*emptied, *ways)]


def _of_one_result(program: Program, reuse: Reuse) -> list[Remedy]:
    out = list(repeated(program, reuse))
    if reuse.stepped:
        # The graph is of older values: to keep it would be no way to the gradient that is wanted.
        out = [r for r in out if r.args.get("name") != "retain_graph"] + result_anew(program, reuse)
    return out


def _of_both_losses(program: Program, reuse: Reuse) -> list[Remedy]:
    apart = reuse.cleared_between or reuse.within_one_call
    first = kept_for_each(program.sources, reuse) if apart else _sum(reuse)
    kept = kept_for_second(program.sources, reuse, program.evidence.root)
    ways = [*first, *kept, *second_forward(program, reuse), *compute_again(program, reuse)]
    return [*ways, *as_fitted(program, reuse), *held_by_second(program, reuse)]


def _data_of_another_pass(program: Program, reuse: Reuse) -> list[Remedy]:
    """Keep the numbers of what another loss's pass has left, within the step; last, let this loss learn through it."""
    used = [r for r in constant_at_use(program, reuse.carries, constant_note(reuse)) if "uses it" in r.title]
    left = "whether this loss is to learn through what the other pass has left as well, no run tells"
    both = kept_for_second(program.sources, reuse, program.evidence.root)
    return [
        *stored(reuse),
        *detach_where_kept(program, reuse),
        *used,
        *(replace(r, safety="unsafe", open=left) for r in both),
    ]


_EACH_BY_BOTH = "Each network is then trained by the other's loss too, through what that loss takes in of it."


def as_constant(program: Program, reuse: Reuse) -> list[Remedy]:
    """Take the values as constants in the loss that is not to train them; for both losses where they are made."""
    note = constant_note(reuse)
    if reuse.coupling is not None:
        return [*detach_targets(reuse.coupling, note), *_merged(reuse, _EACH_BY_BOTH)]
    learn = f"{folded(reuse.behind)} then learn{'s' * (len(reuse.behind) == 1)} from both losses."
    both = _merged(reuse, learn) if reuse.weighed_by is not None else []
    if reuse.in_earlier_loss:
        ways = constant_at_use(program, reuse.earlier, note, use_only=True) or in_earlier_loss(reuse, note)
        if reuse.may_be_for_both:
            names = listing(all_told(program.optimizers, reuse.owners & reuse.gathering_since))
            left = f"{names} had been set to zero before both losses: whether it is to step with both, no run tells"
            ways = [replace(r, open=left) for r in ways]
        return [*ways, *both]
    ways = constant_at_use(program, reuse.carries, note)
    if reuse.weighed_by is not None:
        # What the earlier loss trains is not to be cut where it is made.
        return [*(r for r in ways[:1] if "uses it" in r.title), *both]
    if reuse.role is Role.DATA and reuse.lifetime is Lifetime.SAME_PASS:
        # One cut where the value is made serves both losses; merged, the calls take no step apart.
        return [*(merge(reuse) if reuse.calm else []), *ways[1:], *ways[:1]]
    cut = ways or constant_at_use(program, reuse.carries, note, alone=True)
    if not cut:
        return []
    anew = of_this_update(program.sources, cut[0]) or value_with_its_graph(program, reuse, cut[0])
    return [*anew, *ways]


def as_fitted(program: Program, reuse: Reuse) -> list[Remedy]:
    """Take what the earlier loss alone fits as data for this one, where no step lies between: both may be meant."""
    if not reuse.fitted_by_one or reuse.calls is None or not reuse.calm:
        return []
    beyond = set(reuse.journal.reaches(reuse.calls[1])) - reuse.behind
    ways = constant_at_use(program, reuse.carries, constant_note(reuse), otherwise=beyond) if beyond else []
    return [r for r in ways[:1] if "uses it" in r.title]


def held_by_second(program: Program, reuse: Reuse) -> list[Remedy]:
    """Take what only the later loss has in its optimizer as data for the earlier one: both may be meant."""
    if not reuse.held_by_second:
        return []
    ways = constant_at_use(program, reuse.earlier, constant_note(reuse), use_only=True)
    return [replace(r, open=_from_both(reuse)) for r in ways[:1]]


def _from_both(reuse: Reuse) -> str:
    are = "is" if len(reuse.behind) == 1 else "are"
    return f"whether {folded(reuse.behind)} {are} to learn from both losses, no run tells"


def kept_for_each(sources: SourceTexts, reuse: Reuse) -> list[Remedy]:
    """Keep the graph for the losses to come, where the gradient of each is wanted by itself."""
    within = reuse.within_one_call
    kept = reuse.failing if reuse.read_apart else reuse.freeing
    decided = decided_at(sources, kept.stack, "retain_graph") if kept is not None else None
    if decided is None:
        return []
    call, flag = decided
    what, whose = ("call", "the gradient that it is asked for") if within else ("loss", "its loss's own gradient")
    note = f"No optimizer steps between the calls: each gives {whose}. The graph goes with the losses."
    title, left = f"keep the graph for the next {what},", ""
    if not reuse.read_apart and not within:
        left = "what it gives is cleared before a step could use it: whether it was read before, no run tells"
    return [flag_set(call, title, note, "unsafe" if left else "safe", left, flag)]


def kept_for_second(sources: SourceTexts, reuse: Reuse, root: int) -> list[Remedy]:
    """Keep the graph for the second loss of one step, where no function has both calls in its hands to make them one.

    Both calls then add to the same gradients, with the same parameters: what the flag keeps is not stale. ``root`` is
    the node of the second loss: where the first is made of that very one, it is open whether it is to count twice.
    """
    call = user_line(reuse.freeing)
    if call is None or reuse.failing is None or not reuse.one_step or reuse.same_line or can_merge(sources, reuse):
        return []
    if reuse.freeing is None or reuse.freeing.kind != "backward":
        return []
    if reuse.asks_for_it:
        note = "No optimizer steps between the two calls: the second differentiates the graph as it was made."
    elif reuse.journal.zeroed_before(reuse.failing):
        return []
    else:
        note = "No optimizer steps between the two calls: their gradients add up to that of the sum of the losses."
    whole = not reuse.asks_for_it and bool(reuse.carries) and all(c.producer == root for c in reuse.carries)
    second = "gradient that is asked for" if reuse.asks_for_it else "second loss"
    left = "the first loss is made of the second one, which then counts twice: whether it is to, no run tells" * whole
    return [flag_set(call, f"keep the graph for the {second},", note, left=left)]


def kept_for_outer(program: Program, reuse: Reuse) -> tuple[Remedy, ...]:
    """For an inner ``autograd.grad``: one call for all inputs where that is what repeats, else keep its graph."""
    assert reuse.failing is not None and reuse.freeing is not None
    if reuse.failing.kind == "grad":
        return repeated(program, reuse)
    return keep_inner_graph(program.sources, reuse.failing, reuse.freeing)


def detach_targets(coupling: Coupling, note: str) -> list[Remedy]:
    """Make constants of what the losses only aim at, at every place where they do."""
    edits = [edit_at("detach_expression", frame) for frame, _ in coupling.places]
    frame, loss = coupling.places[0]
    return together(edits, f"detach the target of {loss} at {where(frame)}", "unsafe", note)


def _sum(reuse: Reuse) -> list[Remedy]:
    """One call on the sum; open where one of the losses may be meant to take what the other fits as data."""
    if not reuse.may_be_data:
        return merge(reuse)
    return [replace(r, safety="unsafe", open=_from_both(reuse)) for r in merge(reuse)]


def _merged(reuse: Reuse, note: str) -> list[Remedy]:
    """One call on the sum, with what that changes."""
    return [replace(r, safety="unsafe", note=note) for r in merge(reuse)]


_HELD = "whether it is to be computed again with what it meets, or to stay as it was, no run tells"
_WAYS: tuple[tuple[Callable[[Reuse], object], Callable[[Program, Reuse], list[Remedy]]], ...] = (
    (lambda r: r.slices, lambda _, r: own_rows(r.slices)),
    (lambda r: r.lifetime is Lifetime.SUMMED, start_anew),
    (lambda r: r.lifetime is Lifetime.RESULT, _of_one_result),
    (lambda r: r.lifetime is Lifetime.RECURS, lambda p, r: [*result_of_its_own(p, r), *from_carrying(p, r)]),
    (lambda r: r.role is Role.REFERENCE and r.left_by_another_pass, _data_of_another_pass),
    (
        lambda r: r.lifetime is Lifetime.STORED or r.role is Role.REFERENCE,
        lambda p, r: [*from_storing(p, r), *(compute_again(p, r) if r.may_move_along else [])],
    ),
    (
        lambda r: r.lifetime is Lifetime.MADE_ONCE and r.may_be_held,
        lambda p, r: [replace(way, open=_HELD) for way in from_building_once(p, r)],
    ),
    (lambda r: r.lifetime is Lifetime.MADE_ONCE, from_building_once),
    # What ran again and is read by nobody was most likely to be taken in its place.
    (
        lambda r: r.role in CONSTANT,
        lambda p, r: [*(behind_call(p, r) if r.may_have_run_again else []), *as_constant(p, r)],
    ),
    (lambda r: r.lifetime is not Lifetime.SAME_PASS or r.calls is None, lambda *_: []),
    (lambda r: r.ran_beside, behind_call),
    (lambda _: True, _of_both_losses),
)
"""When an older graph is parted from in which way: the first row that holds decides."""
