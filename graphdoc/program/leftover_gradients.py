"""What another optimizer's loss has left in the gradients that the step behind the failing call would take, too."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Event, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user


@dataclass(frozen=True)
class Leftover:
    """An optimizer that steps with the failing call's gradient, and the latest earlier call that has given its
    parameters one for another optimizer's step, which nobody has cleared since."""

    optimizer: int
    call: Event


def leftovers(program: Program) -> tuple[Leftover, ...]:
    """One for each optimizer that the failing call works for and that would step with the sum; none where a call that
    works for the same optimizer is part of the sum, for then it is meant to add up, or where any of it is not known.
    """
    failing = program.failing
    if failing is None or failing.kind != "backward":
        return ()
    own = program.journal.works_for(failing)
    found = [_leftover(program, failing, own, ident) for ident in sorted(own)]
    return tuple(f for f in found if f is not None)


def _leftover(program: Program, failing: Event, own: frozenset[int], ident: int) -> Leftover | None:
    journal, held = program.journal, program.owners.parameters([ident])
    before = [e for e in journal.events if e.index < failing.index]
    cleared = max((e.index for e in before if e.kind == "zero_grad" and e.optimizer == ident), default=-1)
    stepped = max((e.index for e in before if e.kind == "step" and e.optimizer == ident), default=-1)
    since = [e for e in before if e.index > cleared]
    if failing.index - cleared != len(since) + 1:
        return None  # the journal has a gap there
    shared = held & set(journal.reaches(failing))
    calls = [e for e in since if e.kind == "backward" and not e.failed and shared & set(journal.reaches(e))]
    last = calls[-1] if calls else None
    if (
        last is None
        or last.index < stepped
        or not all(_for_others(program, e, own) for e in calls if e.index > stepped)
    ):
        return None
    reached = shared & set(journal.reaches(last))
    filled = {p.name for p in program.parameters if p.grad == "present"}
    if not reached <= filled or _cleared_by_module(program.sources, last, failing, before):
        return None
    return Leftover(ident, last)


def _for_others(program: Program, call: Event, own: frozenset[int]) -> bool:
    """Whether a call works for optimizers that hold something it reaches, and for none of ``own``."""
    works = program.journal.works_for(call)
    return not own & works and bool(program.owners.parameters(works) & set(program.journal.reaches(call)))


def _cleared_by_module(sources: SourceTexts, call: Event, failing: Event, before: list[Event]) -> bool:
    """Whether a ``zero_grad()`` that was none of an optimizer's stands between the two calls in one function."""
    first, second = innermost_user(call.stack), innermost_user(failing.stack)
    if first is None or second is None or (first.file, first.function) != (second.file, second.function):
        return False
    known = {f.line for e in before if e.kind == "zero_grad" and (f := innermost_user(e.stack)) is not None}
    return any(
        isinstance(n, ast.Attribute) and n.attr == "zero_grad" and first.line < n.lineno < second.line
        for n in ast.walk(bindings.tree(sources, first.file) or ast.Module([], []))
        if getattr(n, "lineno", 0) not in known
    )
