"""Each step by its own loss's gradient: what another optimizer's loss has left is cleared before the failing call."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.evidence import Frame
from graphdoc.finding import Finding, Remedy
from graphdoc.program.leftover_gradients import Leftover, leftovers
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_spelling import spelled
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.remedies.written_fixes import applies
from graphdoc.story.wording import listing

_LEAVES_CALL = frozenset(
    {
        "clone_parameters",
        "compute_in_method",
        "detach_assigned",
        "detach_between",
        "detach_expression",
        "drop_keyword",
        "recompute_after",
        "score_detached",
        "steps_last",
    }
)
"""Kinds of fix that leave the failing call where it is, as the one that its optimizers step behind."""
MOST = 3
"""Remedies of one finding that are told with clearing as well."""


def with_leftovers_cleared(program: Program, finding: Finding) -> Finding:
    """The finding whose remedies also clear what a loss of another optimizer has left for the failing call's step.

    The program as it is written steps with the sum, and a patch that only ends the failure does so as well, which is a
    doubt. That the sum is meant cannot be excluded: each remedy comes first as it is, and the question stays open.
    """
    if not any(_leaves_call(r) for r in finding.remedies):
        return finding
    if program.reuse is not None and program.reuse.in_earlier_loss:
        return finding  # it is the earlier loss that is cut off: it leaves nothing then
    left = leftovers(program)
    call = innermost_user(program.failing.stack) if program.failing is not None else None
    names = _names(program, left, call) if call is not None else []
    if not names or call is None:
        return finding
    held = program.owners.parameters(p.optimizer for p in left)
    early = program.overwrite.steps if program.overwrite is not None else []
    moved = held & program.owners.parameters(e.optimizer for e in early)
    remedies: list[Remedy] = []
    count = 0
    for r in finding.remedies:
        remedies.append(r)
        # A step that is moved behind the call would find its gradients cleared.
        late = moved and any(part["kind"] == "steps_last" for part in r.parts)
        made = _cleared(r, left, names, call) if _leaves_call(r) and not late and count < MOST else None
        if made is not None and applies(program.sources, made):
            remedies.append(made)
            count += 1
    return replace(finding, remedies=tuple(remedies))


def _cleared(remedy: Remedy, left: tuple[Leftover, ...], names: list[str], call: Frame) -> Remedy:
    """The remedy together with clearing these optimizers in front of the failing call."""
    losses = listing(where(f) for p in left if (f := innermost_user(p.call.stack)) is not None)
    told, plural = listing(f"`{n}`" for n in names), len(names) > 1
    note = f"{told} then {'step' if plural else 'steps'} by this loss's gradient alone, without what the loss at "
    question = f"whether {told} {'are' if plural else 'is'} to learn from the loss at {losses} as well, no run tells"
    statements = [f"{n}.zero_grad()" for n in names]
    added = [
        {"kind": "add_statement", "args": {"place": place(call), "statement": s, "before": True}} for s in statements
    ]
    return Remedy(
        "several",
        f"{remedy.title}, and call {listing(f'`{s}`' for s in statements)} in front of {where(call)}",
        "unsafe",
        f"{remedy.note} {note}{losses} has left.".strip(),
        {"edits": [*remedy.parts, *added]},
        "; and ".join(filter(None, (remedy.open, question))),
    )


def _leaves_call(remedy: Remedy) -> bool:
    return remedy.safety != "display" and all(part["kind"] in _LEAVES_CALL for part in remedy.parts)


def _names(program: Program, left: tuple[Leftover, ...], call: Frame) -> list[str]:
    """How the line of the failing call writes these optimizers; empty where that is not known of each, or where the
    line differentiates for others as well."""
    if _serves_others(program, call.start):
        return []
    names: list[str] = []
    for one in left:
        name = next((o.name for o in program.optimizers if o.id == one.optimizer), "")
        events = [e for e in program.evidence.events if e.optimizer == one.optimizer]
        seen = [f for e in events if (f := innermost_user(e.stack)) is not None]
        own = spelled(program.sources, name, call, seen) if name else None
        if own is None:
            return []
        names.append(own)
    return names


def _serves_others(program: Program, start: tuple[str, int, int]) -> bool:
    """Whether the line of the failing call also differentiates for optimizers that this one does not work for."""
    journal, failing = program.journal, program.failing
    own = journal.works_for(failing) if failing is not None else frozenset()
    frames = [(e, innermost_user(e.stack)) for e in program.evidence.events if e.kind == "backward"]
    return any(f is not None and f.start == start and journal.works_for(e) - own for e, f in frames)
