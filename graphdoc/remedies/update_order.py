"""Forward, step and backward in the wrong order: another order, a new forward, or one on clones, best first."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from graphdoc.evidence import Event, Evidence, Folded, Frame, SourceTexts, Stale
from graphdoc.finding import Remedy, edit_at, remedy_at, together
from graphdoc.program.bindings import everywhere, source_at
from graphdoc.program.calls_in_order import Journal, update_and_earlier
from graphdoc.program.carried_names import bound_names, carried, operands_in
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite, is_all_of_loss, reached_without_line
from graphdoc.program.reuse import lines_with, takes_up_anew, ways_to, without_graph
from graphdoc.program.spans import (
    depth,
    in_function,
    innermost_user,
    loop_of,
    place,
    rounds_are_alike,
    shared_levels,
    short_code,
    where,
)
from graphdoc.program.update_function import Scene, scene, stale_forwards
from graphdoc.program.writers import operands_named
from graphdoc.remedies.alongside import with_flag_dropped
from graphdoc.remedies.constant_value import OF_THIS_LOSS, constant_at_use, value_with_its_graph
from graphdoc.remedies.fix_places import again_behind, applies, listed_lines, parsed, unique
from graphdoc.remedies.in_place_write import hook_of, hook_remedies, instead_of_writing, move_behind
from graphdoc.remedies.installed_packages import copy_for_package
from graphdoc.remedies.newer_value import behind_step
from graphdoc.remedies.recomputation import result_anew
from graphdoc.remedies.recording import open_at_terms, taking
from graphdoc.remedies.reused_graph import remedies_for
from graphdoc.source.effects import method_of
from graphdoc.source.paths import key, last_word
from graphdoc.source.places import Place
from graphdoc.story.wording import folded

# Forward, step and backward in another order, where the connection between two losses is needed: each is
# differentiated with the weights of its own forward pass, and each optimizer uses the gradient of its own loss.


def steps_behind(program: Program, writers: list[Event]) -> list[Remedy]:
    """One call of ``backward`` for all steps where the loss is the same, else the step behind the second call.

    ``writers`` are the steps that came too early.
    """
    failing, writers = program.failing, sorted(writers, key=lambda e: e.index)
    if failing is not None and failing.kind == "grad":
        return _behind_gradient(program, writers, failing)
    if failing is None or failing.kind != "backward":
        return []
    earlier = program.journal.earlier(failing)
    if earlier is not None and earlier.kind == "backward":
        return _once(earlier, failing)
    return _last(program, writers, failing)


def _behind_gradient(program: Program, writers: list[Event], failing: Event) -> list[Remedy]:
    """Step behind an ``autograd.grad``, which adds nothing to the gradients that the step takes, where nothing between
    them reads what is stepped."""
    call = innermost_user(failing.stack)
    steps = {f.extent: f for e in writers if (f := innermost_user(e.stack)) is not None}
    if call is None or len(steps) != 1 or any(e.kind != "step" for e in writers):
        return []
    (step,) = steps.values()
    stepped = program.owners.parameters([e.optimizer for e in writers])
    parts = sorted({part for n in stepped for part in re.split(r"[.\[]", n)})
    title = f"step at {where(step)} after the autograd.grad call at {where(call)}"
    note = "The call computes the gradient of the weights of its own forward pass, and adds nothing to the gradients "
    note += "of the step."
    remedy = Remedy("move_statement", title, "safe", note, {"place": place(step), "after": place(call)})
    alone = replace(remedy, args={**remedy.args, "untouched": parts})
    return [remedy] if applies(program.sources, alone) else []


def for_each_round(sources: SourceTexts, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """For a loop that steps in each round, where the forward pass that they share lies before it.

    Rounds that take up different parts of it are differentiated together, for one step. Rounds that are all alike are
    so many steps: each needs a forward pass of its own.
    """
    if at is None or found.failing is None or found.failing.kind != "backward":
        return []
    loop = loop_of(sources, at.write)
    if loop is None or loop != loop_of(sources, at.backward):
        return []
    if not at.forwards or any(loop.line < f.line <= loop.end_line for f in at.forwards):
        return []
    if rounds_are_alike(sources, loop):
        title = f"compute it in the loop: {listed_lines(at.forwards)} in each round of the loop at {where(loop)}"
        note = "Each round steps with the gradient of a forward pass of its own, run with the weights as they are then."
        args: dict[str, Any] = {"places": [place(f) for f in at.forwards], "loop": place(at.write)}
        remedy = Remedy("move_into_loop", title, "unsafe", note, args)
    else:
        note = "All rounds are differentiated with the weights of the one forward pass that they share, and their "
        note += "gradients add up to one step."
        args = {"step": place(at.write), "backward": place(at.backward)}
        remedy = Remedy("step_behind_loop", f"step once, after the loop at {where(loop)}", "unsafe", note, args)
    return [remedy] if applies(sources, remedy) else []


def other_update_first(program: Program) -> list[Remedy]:
    """The update that has failed before the one that steps too early, where a statement makes each as a whole."""
    failing = program.failing
    found = update_and_earlier(program.journal, failing) if failing is not None else None
    if found is None:
        return []
    mine, early = found
    title = f"make the update at {where(mine)} before the one at {where(early)}"
    note = "Its loss is differentiated with the weights of its own forward pass. Each update clears the gradients of "
    note += "its own optimizer first, so that none steps with what another loss has left."
    remedy = Remedy("move_statement", title, "safe", note, {"place": place(mine), "before": place(early)})
    return [remedy] if applies(program.sources, remedy) else []


def _once(earlier: Event, failing: Event) -> list[Remedy]:
    first, second = innermost_user(earlier.stack), innermost_user(failing.stack)
    if first is None or second is None or (first.file, first.line) == (second.file, second.line):
        return []
    title = f"call backward once, at {where(first)}, and let both optimizers step with that gradient"
    note = "The loss is the same in both calls, and so is its gradient: each optimizer steps with what one call gives "
    note += "to its parameters."
    return [Remedy("backward_once", title, "safe", note, {"stays": place(first), "goes": place(second)})]


def _last(program: Program, writers: list[Event], failing: Event) -> list[Remedy]:
    """Move the steps behind the backward call of a loss of another optimizer."""
    call, works_for = innermost_user(failing.stack), program.journal.works_for(failing)
    steps = {f.start: f for e in writers if (f := innermost_user(e.stack)) is not None}
    stepped = program.owners.parameters([e.optimizer for e in writers])
    held = program.owners.parameters(works_for)
    # Where one optimizer steps with both losses, no step is to be put between. Of what two of them hold each would step
    # with the other's gradient, or with a cleared one.
    if call is None or not steps or not works_for or stepped & held or len({f.file for f in steps.values()}) > 1:
        return []
    if any(e.kind != "step" or e.optimizer in works_for or innermost_user(e.stack) is None for e in writers):
        return []
    reached = stepped & set(failing.reaches or program.evidence.reaches)
    first, *others = steps.values()
    args: dict[str, Any] = {
        "step": place(first),
        "backward": place(call),
        "inputs": bool(reached),
        "keepers": sorted({name.split(".")[0].split("[")[0] for name in stepped}),
    }
    if any(p.name in held and not p.requires_grad for p in program.parameters):
        args["frozen"] = True
    if not others and (own := _own_loop(program.sources, first, call, works_for, args)):
        return own
    note = ("All" if others else "Both") + _THEIR_OWN
    if reached:
        note += " The last call gives gradient to its own optimizer's parameters alone, so that it adds nothing to "
        note += "what the others step with."
    users = [f for f in failing.stack if f.user]
    level = in_function(users, first)
    if level is not None and level is not call:
        if reached and _is_for_others(program.sources, call):
            return []
        args |= {"behind": place(level), "through": [place(f) for f in users[users.index(level) + 1 :]]}
    since = min(e.index for e in writers)
    calls = [e for e in program.evidence.events if e.kind == "backward" and since < e.index < failing.index]
    if not calls and takes_up_anew(program.evidence.folded, stepped) is False:
        args["apart"] = sorted({part for n in stepped for part in re.split(r"[.\[\]]+", n) if part})
        args["optimizers"] = sorted({o.name.rsplit(".", 1)[-1] for o in program.optimizers if o.name})
    at = ", ".join(where(f) for f in steps.values())
    calls_made = "all" if others else "both"
    title = f"move the step at {at} after {calls_made} backward calls, below {where(level or call)}"
    more = {"others": [place(f) for f in others], "learners": len(works_for)}
    return [Remedy("steps_last", title, "safe", note, {**args, **more})]


_THEIR_OWN = " losses are differentiated with the weights of their own forward pass."


def _is_for_others(sources: SourceTexts, call: Frame) -> bool:
    """Whether the helper that makes a backward call is called elsewhere, too, and so may be for other parameters."""
    named = call.function.rsplit(".", 1)[-1]
    return sum(last_word(n.func) == named for _, n in everywhere(sources, ast.Call)) > 1


def _own_loop(
    sources: SourceTexts, step: Frame, call: Frame, works_for: frozenset[int], args: dict[str, Any]
) -> list[Remedy]:
    """For a loop whose rounds differentiate one loss and step one optimizer each: the steps in a loop of their own."""
    from graphdoc.fixes.steps import limited_again

    loop = loop_of(sources, step)
    if loop is None or loop != loop_of(sources, call) or len(works_for) != 1 or step.line <= call.line:
        return []
    source = source_at(sources, step)
    owner = source.node_statement(Place.of(step))
    again = owner is not None and limited_again(source, owner)
    note = "All" + _THEIR_OWN
    if args["inputs"]:
        note += " Each call gives gradient to its own optimizer's parameters alone."
    if again:
        note += " What a round limits by its norm is limited again in the rounds after it."
    title = f"step in a loop of its own, after the loop at {where(loop)} that differentiates the losses"
    return [Remedy("steps_behind_rounds", title, "unsafe" if again else "safe", note, args)]


def later_step(program: Program, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """Step once, behind both backward calls, where both losses are meant for this very optimizer."""
    event = found.writers[0].event if found.writers else None
    if at is None or event is None or found.failing is None:
        return []
    if event.optimizer not in program.journal.works_for(found.failing):
        return []
    summed = ", and one step uses the sum of their gradients" if found.failing.kind == "backward" else ""
    note = f"Both losses are differentiated with the same weights{summed}."
    if _steps_again(program.sources, at.write, at.backward):
        # Moved, it would step a second time by the same gradient.
        title = f"leave out the step at {where(at.write)}: the one after {where(at.backward)} is for both losses"
        return [Remedy("delete_statement", title, "unsafe", note, {"place": place(at.write)})]
    title = f"move the step at {where(at.write)} after the backward call at {where(at.backward)}"
    return [*remedy_at(at.write, "move_statement", title, "unsafe", note, after=place(at.backward))]


def _steps_again(sources: SourceTexts, step: Frame, call: Frame) -> bool:
    """Whether the same optimizer steps behind the call as well, before there is another backward call, and clears
    nothing between the two steps.
    """
    source = source_at(sources, step)
    early, late = source.node_statement(Place.of(step)), source.node_statement(Place.of(call))
    if step.file != call.file or early is None or late is None or source.node_between(early, late) is None:
        return False
    (block, begin), mine = source.node_block(early), method_of(early)[1]
    for later in block[begin + 1 :]:
        method, optimizer = method_of(later)
        if optimizer is None or mine is None or later is late:
            continue
        if method == "step" and key(optimizer) == key(mine):
            return block.index(later) > block.index(late)
        if method in ("zero_grad", "backward"):
            return False
    return False


# One loss that is differentiated a second time, for parameters that were written since: only a new forward helps.

AGAIN = "The same loss is differentiated once more: compute it again, with the values of then."


def computed_again(found: Overwrite, at: Scene | None) -> list[Remedy]:
    """By hand: on clones of the parameters the second call would only give what the first one gave."""
    write = at.write if at is not None else found.writers[0].frame if found.writers else None
    behind = f" after the write at {where(write)}" if write is not None else ""
    note = "With the values of its one forward pass the second call would give the gradient of the first one once more."
    return [Remedy("compute_again", f"Compute the loss again{behind}, before it is differentiated", "display", note)]


def of_another_optimizer(journal: Journal, found: Overwrite) -> bool:
    """Whether all the steps that wrote were of optimizers that the failing call does not work for."""
    works = journal.works_for(found.failing) if found.failing is not None else frozenset()
    return bool(found.steps) and not any(e.optimizer in works for e in found.steps)


# Forward, step and backward in the wrong order: the ways to mend it, best first.

_COMPARED = "what was made before the step is compared with new values: whether both are to learn, no run tells"
_AS_REFERENCE = f"It becomes {OF_THIS_LOSS}, which compares it with new values and learns through that."


def stepped_remedies(program: Program, found: Overwrite) -> tuple[Remedy, ...]:
    """All ways that make sense for a step between forward and backward, best first."""
    at = scene(program, found)
    again = weights_of_now(program, at) if at is not None else []
    cloned = clone_forward(program, found)
    stepped = min((e.sequence for e in found.steps), default=0)
    fresh = {n.id for n in program.nodes if n.sequence >= stepped}
    compared = [
        c for c in carried(program.evidence, program.evidence.older_edges) if c.is_compared and c.consumer in fresh
    ]
    cloned = [replace(r, open=_COMPARED) for r in cloned] if compared else cloned
    reference = constant_at_use(program, compared, _AS_REFERENCE, use_only=True) if compared else []
    cut = as_constant(program, found, at) if found.constant else reference
    parted = list(remedies_for(program, found.reuse)) if found.reuse is not None and found.reuse.carries else []
    if found.same_loss:
        ordered = steps_behind(program, found.steps)
        if found.reuse is not None and found.reuse.same_line:
            # One loss in each round of a loop: on clones it would have the gradient of the first round for ever.
            anew = [r for r in result_anew(program, found.reuse) if applies(program.sources, r)]
            return _unique(*anew, *ordered, *again)
        if found.repeats:
            # Two optimizers may step by one gradient; one that steps a second time is to have another.
            ordered = ordered if of_another_optimizer(program.journal, found) else []
            cloned = computed_again(found, at)
        return _unique(*ordered, *again, *cloned)
    if at is not None and at.order == "late":
        return _unique(*cut, *cloned, *again, *(parted if found.constant else []))
    if at is not None and at.order == "carried":
        rounds = for_each_round(program.sources, found, at)
        return _unique(*behind_step(program.sources, at), *cut, *rounds, *again, *parted, *cloned)
    ordered = steps_behind(program, found.steps)
    parted = parted if found.constant else []
    if at is not None and at.order == "below":
        # Nothing can be put between the two in this function.
        return _unique(*cut, *parted, *ordered, *other_update_first(program), *cloned)
    asked = found.failing is not None and found.failing.kind == "grad"  # which leaves what the step takes alone
    one = at is not None and _in_one_statement(program.sources, program.evidence.events, found, at)
    together = ordered if asked or one else []
    return _unique(
        *behind_step(program.sources, at),
        *cut,
        *scored_again(program, found, at),
        *together,
        *again,
        *parted,
        *ordered,
        *other_update_first(program),
        *later_step(program, found, at),
        *cloned,
    )


def _in_one_statement(sources: SourceTexts, events: list[Event], found: Overwrite, at: Scene) -> bool:
    """Whether the statement to be run again also made the loss that the earlier step used: run again, it would compute
    that one for nothing, and on whatever it draws or reads the second time."""
    made = {name for f in at.forwards for name in bound_names(sources, f)}
    steps = [e.index for e in found.steps]
    calls = [e for e in events if e.kind == "backward" and e.index < min(steps, default=0)]
    levels = {(f.file, f.function) for f in at.forwards}
    frames = [f for e in calls[-1:] for f in e.stack if (f.file, f.function) in levels]
    return any(operands_in(sources, f, made) for f in frames)


def overwritten_remedies(program: Program, found: Overwrite) -> tuple[Remedy, ...]:
    """For a parameter that was copied over: a constant where this loss does not train it, else clones, or later."""
    at = scene(program, found)
    hook = hook_of(program.sources, found.writers[0] if found.writers else None)
    if hook and at is not None and at.order == "within":
        return hook_remedies(hook)
    if found.repeats:
        return _unique(*(recompute(program.sources, at) if at is not None else ()), *computed_again(found, at))
    if computed := instead_of_writing(program.evidence, found):
        return _unique(*computed)  # nobody means to write the parameter
    copied = copy_for_package(program.sources, program.packages, found)
    cloned = clone_forward(program, found)
    if found.constant:
        return _unique(
            *copied,
            *with_flag_dropped(program.sources, program.evidence.events, found, as_constant(program, found, at)),
            *move_behind(program, found),
            *cloned,
        )
    again = recompute(program.sources, at) if at is not None else []
    if found.keeping_calls:  # the gradient of the old values was taken before the write: this one is to be of the new
        return _unique(*copied, *again, *move_behind(program, found), *cloned)
    return _unique(*copied, *move_behind(program, found), *cloned, *again)


def covered_remedies(program: Program, found: Overwrite) -> tuple[Remedy, ...]:
    """The fix of what the flag covers up, together with taking the flag out.

    Never clones of the parameters: on these the old graph can be walked for ever, and gives in every iteration the
    gradient of values that are long gone.
    """
    parted = list(remedies_for(program, found.reuse)) if found.reuse is not None and found.reuse.carries else []
    if found.slices is not None:
        rows = with_flag_dropped(program.sources, program.evidence.events, found, parted)
        return _unique(*[replace(r, safety="safe") for r in rows])
    if not parted and found.constant:
        parted = as_constant(program, found, scene(program, found))
    ordered = steps_behind(program, found.steps)
    return _unique(*with_flag_dropped(program.sources, program.evidence.events, found, parted), *ordered)


LONGEST_CALL = 40


def recompute(sources: SourceTexts, at: Scene) -> list[Remedy]:
    """Run the forward again behind the step or write, so that the loss uses the weights of now."""
    if not at.forwards or at.order in ("within", "below") or at.writes_itself:
        return []
    computed, step = (short_code(sources, f) for f in (at.forwards[0], at.write))
    lines = listed_lines(at.forwards)
    if len(at.forwards) == 1 and 0 < len(computed) <= LONGEST_CALL:
        lines = f"`{computed}` of {lines}"
    title = f"compute {lines} again after {f'`{step}`' if step else where(at.write)}"
    note = "The loss is then computed with the updated weights."
    return [again_behind(at.forwards, at.write, at.backward, title, note)]


def weights_of_now(program: Program, at: Scene) -> list[Remedy]:
    """The forward behind the step; where that cannot be written, the whole other update before the forward."""
    again = recompute(program.sources, at)
    if at.order != "straight" or any(applies(program.sources, r) for r in again):
        return again
    file = at.write.file
    calls = [e for e in program.evidence.events if e.kind in ("backward", "grad", "step", "zero_grad")]
    title = f"make the update that steps at {where(at.write)} before the forward at {where(at.forwards[0])}"
    note = "The updates alternate: the later loss is computed with the weights as they are after the other step."
    args = {
        "places": [place(f) for f in at.forwards],
        "steps": [place(f) for f in at.writes],
        "busy": sorted({f.line for e in calls for f in e.stack if f.file == file and f.user}),
    }
    return [*again, Remedy("update_before", title, "unsafe", note, args)]


def as_constant(program: Program, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """Detach what this loss does not train."""
    from graphdoc.fixes.between_losses import through_network

    carried = found.reuse if found.reuse is not None and found.reuse.carries else None
    whose = folded((carried or found).behind, 2)
    unmeant = "get no gradient from it, and this loss is not meant to train them."
    note = f"It becomes a constant for this loss: {whose} {unmeant}"
    if carried is not None:
        ways = constant_at_use(program, carried.carries, note)
        left = open_at_terms(program.evidence.folded, taking(carried.carries))
        ways = [replace(r, open=left) for r in ways]
        return [*(value_with_its_graph(program, carried, ways[0]) if ways else []), *ways]
    if at is None or not at.forwards:
        return []
    seen = program.evidence
    taken = uses(program, found, at)
    if any(is_all_of_loss(seen.folded, f) for f in taken):
        return []
    args = _between(seen.events, seen.folded, seen.extras, found, at)
    if found.trained:
        reached = set(found.trained) & set(seen.reaches)
        through = lines_with(seen.folded, reached, at.backward)
        args = {**args, "through": through} if through is not None else args
    if found.trained and through_network(parsed(program.sources), args):
        # Cut behind a network that this loss trains, it would teach that network nothing.
        title = f"detach what {where(at.forwards[0])} computes, and run what follows again for this loss"
        return [*scored_again(program, found, at), Remedy("score_detached", title, "unsafe", note, args)]
    left = open_at_terms(seen.folded, taken)
    title = f"detach what {where(at.forwards[0])} computes where this loss uses it"
    first = at.forwards[0]
    where_made, there = f"detach the value where it is computed, at {where(first)}", {"place": place(first)}
    made = Remedy("detach_expression", where_made, "unsafe", note, there, left)
    return [Remedy("detach_between", title, "unsafe", note, args, left), made]


def _between(
    events: list[Event], whole: Folded | None, extras: dict[str, Any], found: Overwrite, at: Scene
) -> dict[str, Any]:
    """What tells the fixes where this loss, and no other, takes up what the stale forwards computed."""
    args: dict[str, Any] = {
        "places": [place(f) for f in at.forwards],
        "backward": place(at.backward),
        "others": [place(f) for f in _other_calls(events, found, at.backward)],
    }
    ways = ways_to(whole, (s.node for s in found.stales), at.backward)
    if ways is not None:
        args["ways"] = ways
    plain = without_graph(extras, at.backward.function)
    if plain:
        args["plain"] = sorted(plain)
    return args


def uses(program: Program, found: Overwrite, at: Scene | None) -> list[Frame]:
    """The expressions in which this loss, and no other, takes up what the stale forwards computed."""
    from graphdoc.fixes.between_losses import entries
    from graphdoc.fixes.fix_kind import CannotFix

    if at is None or not at.forwards:
        return []
    seen = program.evidence
    try:
        taken = entries(parsed(program.sources), _between(seen.events, seen.folded, seen.extras, found, at))
    except CannotFix:
        return []
    return [Frame(**vars(p), function=at.backward.function) for p, _ in taken]


def _other_calls(events: list[Event], found: Overwrite, level: Frame) -> list[Frame]:
    """The other backward calls as the same function makes them."""
    out: dict[int, Frame] = {}
    for e in events:
        if e.kind == "backward" and (found.failing is None or e.index != found.failing.index):
            users = (f for f in e.stack if f.user and f.in_function_of(level) and f.line != level.line)
            if (call := next(users, None)) is not None:
                out.setdefault(call.line, call)
    return list(out.values())


def _unique(*remedies: Remedy) -> tuple[Remedy, ...]:
    return tuple(unique([*remedies])[:8])


# A forward on clones of the parameters, which later writes do not touch: its graph keeps the values it ran with.


def clone_forward(program: Program, found: Overwrite) -> list[Remedy]:
    """Give each stale forward clones of the parameters, which later writes do not touch."""
    edits: list[dict[str, Any]] = []
    shown: list[str] = []
    write = found.writers[0] if found.writers else None
    at = scene(program, found)
    # A module of two names would keep the clone: PyTorch replaces it twice, and gives back what it found last.
    untied = {"untied": True} if any(p.several_names for p in program.parameters) else {}
    for stale in found.stales:
        node = program.node(stale.node)
        above = 0
        if node is not None and write is not None and found.failing is not None:
            above = depth(node.stack, write.stack, found.failing.stack)
            if at is not None and at.order == "within":
                # The write would go into the clones as well, if the call that does both ran on them.
                above = max(above, shared_levels(node.stack, write.stack))
        edit, frame = _clone_edit(program.evidence, stale, above, untied)
        if edit is not None and edit not in edits:
            edits.append(edit)
            shown.append(where(frame))
    title = f"run the forward at {', '.join(dict.fromkeys(shown[:3]))} on clones of the parameters"
    note = "The gradient is that of the weights of the forward, and flows through the clones into the parameters and "
    note += "everything below. It costs a copy of them."
    return together(edits, title, "unsafe", note)


def _clone_edit(
    run: Evidence, stale: Stale, above: int, untied: dict[str, Any]
) -> tuple[dict[str, Any] | None, Frame | None]:
    """The outermost module call below the function in which the steps are made; else the parameter at its use."""
    node = run.node(stale.node)
    stack = node.stack if node is not None else []
    users = 0
    of_module = "." in stale.tensor.name  # a tensor by itself is no module's to be exchanged
    for frame, inner in pairwise(stack if of_module else ()):
        users += frame.user
        if frame.user and users > above and not inner.user and "_call_impl" in inner.function:
            return edit_at("clone_parameters", frame, **untied), frame
    frame_ = innermost_user(stack)
    names = operands_named(run.sources, frame_, stale.tensor.name)
    if frame_ is None or not names:
        return None, None
    return edit_at("clone_expression", frame_, operands=names), frame_


# A forward pass that is data for the loss which fails: taken detached, and only what follows it runs again.


def scored_again(program: Program, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """Run again, behind the step, what the loss learns from, on what another network gave as it was.

    A discriminator that learns from scores of images whose generator has been stepped: its optimizer holds nothing of
    what lies behind the images, and all that it trains lies between them and the loss. The images stay, detached;
    they are scored again.
    """
    if at is None or at.order != "straight" or found.same_loss:
        return []
    constants = _foreign(program, found, at)
    if not constants:
        return []
    behind = f"after {where(at.write)}"
    title = f"detach what {listed_lines(constants)} computes, and run what follows again for this loss, {behind}"
    note = "This loss then takes that value as a constant, since its optimizer trains nothing that it was computed "
    note += "from. The rest is computed with the updated weights."
    every = [*constants, *(f for f in at.forwards if f not in constants)]
    remedy = again_behind(every, at.write, at.backward, title, note, constants)
    return [remedy] if applies(program.sources, remedy) else []


def _foreign(program: Program, found: Overwrite, at: Scene) -> list[Frame]:
    """The stale forwards behind which the failing loss is surely not meant to train anything, while it is elsewhere:
    those that are all that their statement computes."""
    trained = found.trained
    if not trained or not trained & set(program.evidence.reaches) or found.failing is None:
        return []
    behind: dict[tuple[int, int], set[str]] = {}
    for stale, level in stale_forwards(program, found):
        behind.setdefault((level.line, level.column), set()).update(stale.behind)
    source = source_at(program.sources, at.write)
    values = {Place.of(f): getattr(source.node_statement(Place.of(f)), "value", None) for f in at.forwards}
    whole = [f for f in at.forwards if (v := values[Place.of(f)]) is not None and source.place(v) == Place.of(f)]
    foreign = [f for f in whole if (names := behind.get((f.line, f.column))) and not names & trained]
    # What a statement gives besides may be what the loss learns from.
    left = [(f, reached_without_line(program.evidence.folded, f)) for f in foreign]
    return [f for f, names in left if (len(bound_names(program.sources, f)) == 1 if names is None else names & trained)]
