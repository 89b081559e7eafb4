"""What goes along with another remedy: a flag or cover-up taken out, gradients cleared first, each of several cuts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Event, Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at
from graphdoc.model import Safety
from graphdoc.program.bindings import expression_at
from graphdoc.program.cuts import cover_ups
from graphdoc.program.observed import Leftover, Program, leftovers
from graphdoc.program.optimizer_places import spelled
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import innermost_user, user_line, where
from graphdoc.remedies.fix_places import applies, frame_at, left_open
from graphdoc.source.paths import words
from graphdoc.story.wording import listing

# Each step by its own loss's gradient: what another optimizer's loss has left is cleared before the failing call.

_LEAVES_CALL = words(
    """
    clone_parameters compute_in_method detach_assigned detach_between detach_expression drop_keyword recompute_after
    score_detached steps_last
    """
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
    call = user_line(program.failing)
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
    added = [edit_at("add_statement", call, statement=s, before=True) for s in statements]
    title = f"{remedy.title}, and call {listing(f'`{s}`' for s in statements)} before {where(call)}"
    note = f"{remedy.note} {note}{losses} has left.".strip()
    return left_open(with_edits(remedy, added, title, note), question)


def _leaves_call(remedy: Remedy) -> bool:
    return remedy.is_complete and all(part["kind"] in _LEAVES_CALL for part in remedy.parts)


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


def with_edits(remedy: Remedy, edits: list[dict[str, Any]], title: str, note: str) -> Remedy:
    """The remedy together with further edits."""
    return Remedy("several", title, "unsafe", note, {"edits": [*remedy.parts, *edits]}, remedy.open)


# Taking away what hides an error: ``loss.requires_grad_()`` and its kin, together with the fault that they hide.


def with_cover_ups(sources: SourceTexts, as_if: Sign | None, finding: Finding) -> Finding:
    """The finding whose remedies also take away what hides the error, where the statements are known."""
    sign = as_if
    covers = cover_ups(sources, as_if) if sign is not None and sign.kind == "covered-loss" else []
    if not covers:
        return finding
    deletions = [edit_at("delete_statement", f) for f in covers]
    both = [
        replace(with_edits(r, deletions, f"{r.title}, and drop what hid the error", r.note), safety=r.safety)
        for r in finding.remedies
        if r.safety != "display"
    ]
    return replace(finding, remedies=(*both, *finding.remedies))


# A remedy together with taking out ``retain_graph=True``, which kept the graph that it parts from.


def with_flag_dropped(
    sources: SourceTexts, events: list[Event], found: Overwrite, remedies: list[Remedy]
) -> list[Remedy]:
    """Each remedy together with taking ``retain_graph=True`` out of the calls that have it; then as it is."""
    drops = [edit_at("drop_keyword", f, name="retain_graph") for f in flagged_calls(sources, events, found)]
    if not drops:
        return remedies
    out = []
    for r in remedies:
        if not r.is_complete:
            out.append(r)
            continue
        title = f"{r.title}, and drop retain_graph=True"
        note = f"{r.note} Each `backward()` then frees the graph that it went through.".strip()
        out.append(with_edits(r, drops, title, note))
    return [*out[:5], *remedies[:2]]


def flagged_calls(sources: SourceTexts, events: list[Event], found: Overwrite) -> list[Frame]:
    """The places of the calls that kept this very graph, the failing one included, where the flag is written."""
    out: list[Frame] = []
    keeping = {e.index for e in found.keeping_calls}
    if not keeping:
        return out
    failing = found.failing.index if found.failing is not None else -1
    for e in events:
        own = e.index in keeping or e.index == failing
        frame = innermost_user(e.stack) if own and e.retain_graph and e.kind == "backward" else None
        if frame is None or any(f.start == frame.start for f in out):
            continue
        call = expression_at(sources, frame)
        if isinstance(call, ast.Call) and any(k.arg == "retain_graph" for k in call.keywords):
            out.append(frame)
    return out


# One remedy for all the terms of a loss that hang on a cut each: mended alone, one would leave the others cut off.


def for_each_term(ways: Sequence[tuple[Remedy, ...]], told: str = "by each of its terms") -> tuple[Remedy, ...]:
    """The first cut's remedies where it is alone; else the best of each cut's together, and nothing where one has none.

    ``ways``: for each cut its remedies, best first. ``told`` says which these are.
    """
    if len(ways) < 2:
        return ways[0] if ways else ()
    if not all(ways):
        return ()
    best = [way[0] for way in ways]
    edits: list[dict[str, Any]] = [{"kind": r.kind, "args": dict(r.args)} for r in best]
    lines = " and ".join(dict.fromkeys(where(frame_at(r.parts[0])) for r in best))
    titles = list(dict.fromkeys(r.title for r in best))
    safety: Safety = "safe" if all(r.safety == "safe" for r in best) else "unsafe"
    note = f"{best[0].note.rstrip('.')}, {told}."
    return (Remedy("several", f"{'; '.join(titles)}, at {lines}", safety, note, {"edits": edits}),)
