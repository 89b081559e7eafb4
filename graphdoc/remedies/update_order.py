"""Forward, step and backward in the wrong order: the ways to mend it, best first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphdoc.evidence import Event, Folded, Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.connections import is_all_of_loss
from graphdoc.program.graph_ways import lines_with, ways_to, without_graph
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import place, where
from graphdoc.program.update_function import Scene, scene
from graphdoc.program.value_reads import bound_names, operands_in
from graphdoc.remedies.cloned_forward import clone_forward
from graphdoc.remedies.computed_anew import value_with_its_graph
from graphdoc.remedies.constant_forward import scored_again
from graphdoc.remedies.constant_value import OF_THIS_LOSS, constant_at_use
from graphdoc.remedies.copy_for_package import copy_for_package
from graphdoc.remedies.dropped_flag import with_flag_dropped
from graphdoc.remedies.forward_hooks import hook_of, hook_remedies
from graphdoc.remedies.in_place_write import instead_of_writing
from graphdoc.remedies.later_write import move_behind
from graphdoc.remedies.left_open import open_at_terms, taking
from graphdoc.remedies.recomputation import result_anew
from graphdoc.remedies.reordering import for_each_round, later_step, other_update_first, steps_behind
from graphdoc.remedies.repeated_loss import computed_again, of_another_optimizer
from graphdoc.remedies.reused_graph import remedies_for
from graphdoc.remedies.unread_twin import behind_step
from graphdoc.remedies.written_fixes import applies, unique
from graphdoc.source.module import Source
from graphdoc.story.wording import folded

_COMPARED = "what was made before the step is compared with what is made anew: whether both are to learn, no run tells"
_AS_REFERENCE = f"It becomes {OF_THIS_LOSS}, which compares it with what it makes anew and learns through that."


def stepped_remedies(program: Program, found: Overwrite) -> tuple[Remedy, ...]:
    """All ways that make sense for a step between forward and backward, best first."""
    at = scene(program, found)
    again = weights_of_now(program, at) if at is not None else []
    cloned = clone_forward(program, found)
    stepped = min((e.sequence for e in found.steps), default=0)
    fresh = {n.id for n in program.nodes if n.sequence >= stepped}
    compared = [c for c in program.evidence.older_edges if c.is_compared and c.consumer in fresh]
    cloned = [replace(r, open=_COMPARED) for r in cloned] if compared else cloned
    reference = constant_at_use(program, compared, _AS_REFERENCE, use_only=True) if compared else []
    cut = as_constant(program, found, at) if found.constant else reference
    parted = list(remedies_for(program, found.reuse)) if found.reuse is not None and found.reuse.carries else []
    if found.same_loss:
        ordered = steps_behind(program, found.steps)
        if found.reuse is not None and found.reuse.same_line:
            # One loss in each round of a loop: on clones it would have the gradient of the first round for ever.
            anew = [r for r in result_anew(program, found.reuse) if applies(program.sources, r)]
            return _unique([*anew, *ordered, *again])
        if found.repeats:
            # Two optimizers may step by one gradient; one that steps a second time is to have another.
            return _unique(
                [*(ordered if of_another_optimizer(program.journal, found) else ()), *again, *computed_again(found, at)]
            )
        return _unique([*ordered, *again, *cloned])
    if at is not None and at.order == "late":
        return _unique([*cut, *cloned, *again, *(parted if found.constant else [])])
    if at is not None and at.order == "carried":
        rounds = for_each_round(program.sources, found, at)
        return _unique([*behind_step(program.sources, at), *cut, *rounds, *again, *parted, *cloned])
    ordered = steps_behind(program, found.steps)
    parted = parted if found.constant else []
    if at is not None and at.order == "below":
        # Nothing can be put between the two in this function.
        return _unique([*cut, *parted, *ordered, *other_update_first(program), *cloned])
    asked = found.failing is not None and found.failing.kind == "grad"  # which leaves what the step takes alone
    one = at is not None and _in_one_statement(program.sources, program.evidence.events, found, at)
    together = ordered if asked or one else []
    return _unique(
        [
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
        ]
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
    if hook is not None and at is not None and at.order == "within":
        return tuple(hook_remedies(hook))
    if found.repeats:
        return _unique([*(recompute(at) if at is not None else ()), *computed_again(found, at)])
    if computed := instead_of_writing(program.sources, program.raised, found):
        return _unique(computed)  # nobody means to write the parameter
    copied = copy_for_package(program.sources, program.packages, found)
    cloned = clone_forward(program, found)
    if found.constant:
        return _unique(
            [
                *copied,
                *with_flag_dropped(program.sources, program.evidence.events, found, as_constant(program, found, at)),
                *move_behind(program, found),
                *cloned,
            ]
        )
    again = recompute(at) if at is not None else []
    if found.keeping_calls:  # the gradient of the old values was taken before the write: this one is to be of the new
        return _unique([*copied, *again, *move_behind(program, found), *cloned])
    return _unique([*copied, *move_behind(program, found), *cloned, *again])


def covered_remedies(program: Program, found: Overwrite) -> tuple[Remedy, ...]:
    """The fix of what the flag covers up, together with taking the flag out.

    Never clones of the parameters: on these the old graph can be walked for ever, and gives in every iteration the
    gradient of values that are long gone.
    """
    parted = list(remedies_for(program, found.reuse)) if found.reuse is not None and found.reuse.carries else []
    if found.slices is not None:
        rows = with_flag_dropped(program.sources, program.evidence.events, found, parted)
        return _unique([replace(r, safety="safe") for r in rows])
    if not parted and found.constant:
        parted = as_constant(program, found, scene(program, found))
    ordered = steps_behind(program, found.steps)
    return _unique([*with_flag_dropped(program.sources, program.evidence.events, found, parted), *ordered])


def recompute(at: Scene) -> list[Remedy]:
    """Run the forward again behind the step or write, so that the loss uses the weights of now."""
    if not at.forwards or at.order in ("within", "below"):
        return []
    lines = ", ".join(dict.fromkeys(where(f) for f in at.forwards[:3]))
    return [
        Remedy(
            "recompute_after",
            f"compute {lines} after {where(at.write)}",
            "unsafe",
            "The loss then uses the weights as they are after that line, and its gradient is theirs.",
            {
                "places": [place(f) for f in at.forwards],
                "after": place(at.write),
                "backward": place(at.backward),
            },
        )
    ]


def weights_of_now(program: Program, at: Scene) -> list[Remedy]:
    """The forward behind the step; where that cannot be written, the whole other update before the forward."""
    again = recompute(at)
    if at.order != "straight" or any(applies(program.sources, r) for r in again):
        return again
    file = at.write.file
    calls = [e for e in program.evidence.events if e.kind in ("backward", "grad", "step", "zero_grad")]
    return [
        *again,
        Remedy(
            "update_before",
            f"make the update that steps at {where(at.write)} before the forward at {where(at.forwards[0])}",
            "unsafe",
            "The updates alternate: the later loss is computed with the weights as they are after the other step.",
            {
                "places": [place(f) for f in at.forwards],
                "steps": [place(f) for f in at.writes],
                "busy": sorted({f.line for e in calls for f in e.stack if f.file == file and f.user}),
            },
        ),
    ]


def as_constant(program: Program, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """Detach what this loss does not train."""
    from graphdoc.fixes.between_losses import through_network

    carried = found.reuse if found.reuse is not None and found.reuse.carries else None
    whose = folded((carried or found).behind, 2)
    unmeant = "get no gradient from it, and this loss is not meant to train them."
    note = f"It becomes a constant for this loss: {whose} {unmeant}"
    if carried is not None:
        ways = constant_at_use(program, carried.carries, note)
        left = open_at_terms(program.evidence.folded, taking(program.nodes, carried.carries))
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
        args = {**args, "trained": sorted(found.trained)}
        reached = set(found.trained) & set(seen.reaches)
        through = lines_with(seen.folded, reached, at.backward)
        args = {**args, "through": through} if through is not None else args
    if found.trained and through_network({f: Source(f, t) for f, t in program.sources.items()}, args):
        # Cut behind a network that this loss trains, it would teach that network nothing.
        title = f"detach what {where(at.forwards[0])} computes, and run what follows again for this loss"
        return [*scored_again(program, found, at), Remedy("score_detached", title, "unsafe", note, args)]
    left = open_at_terms(seen.folded, taken)
    title = f"detach what {where(at.forwards[0])} computes where this loss uses it"
    made = [
        Remedy(
            "detach_expression",
            f"detach the value where it is computed, at {where(f)}",
            "unsafe",
            note,
            {"place": place(f)},
            left,
        )
        for f in at.forwards[:1]
    ]
    return [Remedy("detach_between", title, "unsafe", note, args, left), *made]


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
    parsed = {f: Source(f, t) for f, t in program.sources.items()}
    seen = program.evidence
    try:
        taken = entries(parsed, _between(seen.events, seen.folded, seen.extras, found, at))
        return [Frame(**vars(p), function=at.backward.function) for p, _ in taken]
    except CannotFix:
        return []


def _other_calls(events: list[Event], found: Overwrite, level: Frame) -> list[Frame]:
    """The other backward calls as the same function makes them."""
    out: list[Frame] = []
    for e in events:
        if e.kind != "backward" or (found.failing is not None and e.index == found.failing.index):
            continue
        for f in e.stack:
            if f.user and f.file == level.file and f.function == level.function and f.line != level.line:
                if not any(o.line == f.line for o in out):
                    out.append(f)
                break
    return out


def _unique(remedies: list[Remedy]) -> tuple[Remedy, ...]:
    return tuple(unique(remedies)[:8])
