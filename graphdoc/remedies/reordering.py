"""Forward, step and backward in another order, where the connection between two losses is needed: each is
differentiated with the weights of its own forward pass, and each optimizer uses the gradient of its own loss.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.graph_ways import takes_up_anew
from graphdoc.program.loops import loop_of, rounds_are_alike
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import in_function, innermost_user, place, where
from graphdoc.program.update_function import Scene
from graphdoc.program.whole_updates import update_and_earlier
from graphdoc.remedies.written_fixes import applies
from graphdoc.source.effects import built_objects, method_of, opaque_calls
from graphdoc.source.module import Source, parsed
from graphdoc.source.paths import key, last_word
from graphdoc.source.places import Place

_NAMED = (ast.Name, ast.Attribute)


def steps_behind(program: Program, writers: list[Event]) -> list[Remedy]:
    """One call of ``backward`` for all steps where the loss is the same, else the step behind the second call.

    ``writers`` are the steps that came too early.
    """
    failing = program.failing
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
    if _is_read_between(program.sources, step, call, {part for n in stepped for part in re.split(r"[.\[]", n)}):
        return []
    remedy = Remedy(
        "move_statement",
        f"step at {where(step)} behind the autograd.grad call at {where(call)}",
        "safe",
        "The gradient that is asked for is that of the weights of its own forward pass, and adds nothing to those that "
        "the step takes.",
        {"place": place(step), "after": place(call)},
    )
    return [remedy] if applies(program.sources, remedy) else []


def _is_read_between(sources: SourceTexts, step: Frame, call: Frame, parts: set[str]) -> bool:
    """Whether a statement between the two names a part of a stepped parameter's name, or calls what may read one."""
    source = Source(step.file, sources.get(step.file, ""))
    node, behind = source.node_statement(Place.of(step)), source.node_statement(Place.of(call))
    block = source.node_block(node) if node is not None else None
    if node is None or behind is None or block is None or behind not in block[0]:
        return True
    between = block[0][block[1] + 1 : block[0].index(behind)]
    read = {n.id if isinstance(n, ast.Name) else n.attr for s in between for n in ast.walk(s) if isinstance(n, _NAMED)}
    known = frozenset({"zero_grad", "zero_"})
    objects = built_objects(source.tree) if source.tree is not None else frozenset()
    return bool(read & parts) or any(opaque_calls(s, parts | {"self"}, known, objects) for s in between)


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
    lines = ", ".join(dict.fromkeys(where(f) for f in at.forwards[:3]))
    remedy = (
        Remedy(
            "move_into_loop",
            f"compute it in the loop: {lines} in each round of the loop at {where(loop)}",
            "unsafe",
            "Each round steps with the gradient of a forward pass of its own, run with the weights as they are then.",
            {"places": [place(f) for f in at.forwards], "loop": place(at.write)},
        )
        if rounds_are_alike(sources, loop)
        else Remedy(
            "step_behind_loop",
            f"step once, behind the loop at {where(loop)}",
            "unsafe",
            "All rounds are differentiated with the weights of the one forward pass that they share, and their "
            "gradients add up to one step.",
            {"step": place(at.write), "backward": place(at.backward)},
        )
    )
    return [remedy] if applies(sources, remedy) else []


def other_update_first(program: Program) -> list[Remedy]:
    """The update that has failed before the one that steps too early, where a statement makes each as a whole."""
    failing = program.failing
    found = update_and_earlier(program.journal, failing) if failing is not None else None
    if found is None:
        return []
    mine, early = found
    remedy = Remedy(
        "move_statement",
        f"make the update at {where(mine)} before the one at {where(early)}",
        "safe",
        "Its loss is differentiated with the weights of its own forward pass. Each update clears the gradients of its "
        "own optimizer first, so that none steps with what another loss has left.",
        {"place": place(mine), "before": place(early)},
    )
    return [remedy] if applies(program.sources, remedy) else []


def _once(earlier: Event, failing: Event) -> list[Remedy]:
    first, second = innermost_user(earlier.stack), innermost_user(failing.stack)
    if first is None or second is None or (first.file, first.line) == (second.file, second.line):
        return []
    return [
        Remedy(
            "backward_once",
            f"call backward once, at {where(first)}, and let both optimizers step with that gradient",
            "safe",
            "The loss is the same in both calls, and so is its gradient: each optimizer steps with what one call gives "
            "to its parameters.",
            {"stays": place(first), "goes": place(second)},
        )
    ]


def _last(program: Program, writers: list[Event], failing: Event) -> list[Remedy]:
    """Move the steps behind the backward call of a loss of another optimizer."""
    call, works_for = innermost_user(failing.stack), program.journal.works_for(failing)
    users = [f for f in failing.stack if f.user]
    places: dict[tuple[int, int], Frame] = {}
    for event in sorted(writers, key=lambda e: e.index):
        step = innermost_user(event.stack)
        if event.kind != "step" or step is None or call is None:
            return []
        if not works_for or event.optimizer in works_for:
            return []  # the same optimizer steps with both: no step is to be put between
        places.setdefault((step.line, step.column), step)
    if not places or call is None:
        return []
    if len({f.file for f in places.values()}) > 1:
        return []
    stepped = program.owners.parameters([e.optimizer for e in writers])
    if stepped & program.owners.parameters(works_for):
        return []  # of what both hold each would step with the other's gradient, or with a cleared one
    reached = stepped & set(failing.reaches or program.evidence.reaches)
    keepers = {name.split(".")[0].split("[")[0] for name in stepped}
    note = "Both losses are" if len(places) == 1 else "All losses are"
    note += " differentiated with the weights of their own forward pass."
    if reached:
        note += " The last call gives gradient to its own optimizer's parameters alone, so that it adds nothing to "
        note += "what the others step with."
    first, *others = places.values()
    roots = sorted(keepers)
    held = program.owners.parameters(works_for)
    frozen = any(p.name in held and not p.requires_grad for p in program.parameters)
    helped: dict[str, Any] = {"frozen": True} if frozen else {}
    if not others and (own := _own_loop(program.sources, first, call, works_for, bool(reached), roots)):
        return [replace(r, args={**r.args, **helped}) for r in own]
    at = ", ".join(where(f) for f in places.values())
    level = in_function(users, first)
    if level is not None and level is not call:
        if reached and _is_for_others(program.sources, call):
            return []
        below = users[users.index(level) + 1 :]
        helped |= {"behind": place(level), "through": [place(f) for f in below]}
    since = min(e.index for e in writers)
    calls = [e for e in program.evidence.events if e.kind == "backward" and since < e.index < failing.index]
    if not calls and takes_up_anew(program.evidence.folded, stepped) is False:
        helped["apart"] = sorted({part for n in stepped for part in re.split(r"[.\[\]]+", n) if part})
        helped["optimizers"] = sorted({o.name.rsplit(".", 1)[-1] for o in program.optimizers if o.name})
    return [
        Remedy(
            "steps_last",
            f"step at {at} when {'both' if not others else 'all'} losses have been differentiated, behind "
            f"{where(level or call)}",
            "safe",
            note,
            {
                **helped,
                "step": place(first),
                "others": [place(f) for f in others],
                "backward": place(call),
                "inputs": bool(reached),
                "learners": len(works_for),
                "keepers": roots,
            },
        )
    ]


def _is_for_others(sources: SourceTexts, call: Frame) -> bool:
    """Whether the helper that makes a backward call is called elsewhere, too, and so may be for other parameters."""
    named = call.function.rsplit(".", 1)[-1]
    nodes = (n for text in sources.values() for n in ast.walk(parsed(text) or ast.Module([], [])))
    return sum(isinstance(n, ast.Call) and last_word(n.func) == named for n in nodes) > 1


def _own_loop(
    sources: SourceTexts, step: Frame, call: Frame, works_for: frozenset[int], reached: bool, keepers: list[str]
) -> list[Remedy]:
    """For a loop whose rounds differentiate one loss and step one optimizer each: the steps in a loop of their own."""
    from graphdoc.fixes.steps import limited_again

    loop = loop_of(sources, step)
    if loop is None or loop != loop_of(sources, call) or len(works_for) != 1 or step.line <= call.line:
        return []
    source = Source(step.file, sources.get(step.file, ""))
    owner = source.node_statement(Place.of(step))
    again = owner is not None and limited_again(source, owner)
    note = "All losses are differentiated with the weights of their own forward pass."
    if reached:
        note += " Each call gives gradient to its own optimizer's parameters alone."
    if again:
        note += " What a round limits by its norm is limited again in the rounds behind it."
    return [
        Remedy(
            "steps_behind_rounds",
            f"step in a loop of its own, behind the loop at {where(loop)} that differentiates the losses",
            "unsafe" if again else "safe",
            note,
            {"step": place(step), "backward": place(call), "inputs": reached, "keepers": keepers},
        )
    ]


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
        title = f"leave out the step at {where(at.write)}: the one behind {where(at.backward)} is for both losses"
        return [Remedy("delete_statement", title, "unsafe", note, {"place": place(at.write)})]
    return [
        Remedy(
            "move_statement",
            f"move the step at {where(at.write)} behind the backward call at {where(at.backward)}",
            "unsafe",
            note,
            {"place": place(at.write), "after": place(at.backward)},
        )
    ]


def _steps_again(sources: SourceTexts, step: Frame, call: Frame) -> bool:
    """Whether the same optimizer steps behind the call as well, before there is another backward call, and clears
    nothing between the two steps.
    """
    if step.file != call.file:
        return False
    source = Source(step.file, sources.get(step.file, ""))
    early, late = source.node_statement(Place.of(step)), source.node_statement(Place.of(call))
    first, behind = source.node_block(early) if early else None, source.node_block(late) if late else None
    if early is None or late is None or first is None or behind is None or first[0] is not behind[0]:
        return False
    mine = method_of(early)[1]
    for later in first[0][first[1] + 1 :]:
        method, optimizer = method_of(later)
        if optimizer is None or mine is None:
            continue
        if method == "zero_grad" or (method == "backward" and later is not late):
            return False
        if method == "step" and key(optimizer) == key(mine):
            return first[0].index(later) > behind[1]
    return False
