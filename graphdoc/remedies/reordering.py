"""Forward, step and backward in another order, where the connection between two losses is needed: each is
differentiated with the weights of its own forward pass, and each optimizer uses the gradient of its own loss.
"""

from __future__ import annotations

from graphdoc.evidence import Event
from graphdoc.finding import Remedy
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user, place, where


def steps_behind(program: Program, writers: list[Event]) -> list[Remedy]:
    """One call of ``backward`` for all steps where the loss is the same, else the step behind the second call.

    ``writers`` are the steps that came too early.
    """
    failing = program.failing
    if failing is None or failing.kind != "backward":
        return []
    earlier = program.journal.earlier(failing)
    if earlier is not None and earlier.kind == "backward":
        return _once(earlier, failing)
    return [remedy for event in writers[-1:] for remedy in _last(program, event, failing)]


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


def _last(program: Program, event: Event, failing: Event) -> list[Remedy]:
    """Move a step behind the backward call of a loss of another optimizer."""
    step, call = innermost_user(event.stack), innermost_user(failing.stack)
    works_for = program.journal.works_for(failing)
    if event.kind != "step" or step is None or call is None or step.file != call.file:
        return []
    if not works_for or event.optimizer in works_for:
        return []  # the same optimizer steps with both: no step is to be put between
    stepped = program.owners.parameters([event.optimizer])
    reached = stepped & set(failing.reaches or program.evidence.reaches)
    keepers = {name.split(".")[0].split("[")[0] for name in stepped}
    note = "Both losses are differentiated with the weights of their own forward pass."
    if reached:
        note += " The second call gives gradient to its own optimizer's parameters alone, so that both steps are those "
        note += "that were meant."
    return [
        Remedy(
            "steps_last",
            f"step at {where(step)} when both losses have been differentiated, behind {where(call)}",
            "safe",
            note,
            {"step": place(step), "backward": place(call), "inputs": bool(reached), "keepers": sorted(keepers)},
        )
    ]
