"""Gradients that are asked for: why a ``.grad`` is None, what ``autograd.grad`` is given, and what it cannot reach."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum

from graphdoc.evidence import Cut, Event, Frame, Parameter, SourceTexts
from graphdoc.program.bindings import call_at
from graphdoc.program.calls_in_order import DIFFERENTIATING
from graphdoc.program.custom_functions import asked_names
from graphdoc.program.gradient_reads import gradients_within
from graphdoc.program.observed import Program
from graphdoc.program.spans import frames, innermost, innermost_user, node_loop_of
from graphdoc.program.written_out import place_of
from graphdoc.source.module import given_to
from graphdoc.source.paths import parts_of, plain_names

# Why the gradient of a parameter is None where the program reads it: by the calls that could have filled it.


class Why(Enum):
    """What has left a gradient at None."""

    FROZEN = "the parameter does not require gradients"
    UNCALLED = "no backward call has been made so far"
    CLEARED = "it has been cleared since the last backward call"
    LEFT_OUT = "no backward call since it was last cleared reaches the parameter"
    TAKEN = "a backward call has reached it; something that the journal does not hold has taken it away"


@dataclass(frozen=True)
class Unset:
    """A read gradient that is None. ``read`` is the expression (``p.grad``), ``name`` what stands before ``.grad``.

    ``calls`` are the backward calls since ``clear``, the last time that an optimizer cleared it (None for never).
    ``last`` is the last call that reached the parameter. ``proven`` says whether what each of the calls reaches was
    measured.
    """

    read: Frame
    name: str
    parameter: Parameter
    why: Why
    calls: tuple[Event, ...] = ()
    clear: Event | None = None
    last: Event | None = None
    proven: bool = True

    @property
    def beside(self) -> tuple[str, ...]:
        """The parameters that these calls do reach."""
        return tuple(dict.fromkeys(n for c in self.calls for n in c.reaches))


def unset_gradient(program: Program) -> Unset | None:
    """The gradient that the failing line reads, where it is that of a parameter that the run knows, and None."""
    frame = program.raised_at
    if frame is None or not program.met_none:
        return None
    known = {p.name: p for p in program.parameters}
    for read, name in gradients_within(program.sources, frame):
        parameter = known.get(program.parameters_within.get(name, ""))
        if parameter is not None and not parameter.buffer and parameter.is_leaf and parameter.grad != "present":
            return _unset(program, read, name, parameter)
    return None


def _unset(program: Program, read: Frame, name: str, parameter: Parameter) -> Unset:
    if not parameter.requires_grad:
        return Unset(read, name, parameter, Why.FROZEN)
    events, journal = program.evidence.events, program.journal
    cleared = [e for e in events if e.kind == "zero_grad" and e.optimizer in parameter.owners]
    clear = cleared[-1] if cleared else None
    since = [e for e in events if clear is None or e.index > clear.index]
    whole = not since or since[-1].index - (clear.index if clear is not None else -1) == len(since)
    every = [e for e in events if e.kind == "backward" and not e.failed]
    calls = tuple(e for e in since if e.kind == "backward" and not e.failed)
    reached = [e for e in every if parameter.name in journal.reaches(e)]
    last = reached[-1] if reached else None
    if not every:
        return Unset(read, name, parameter, Why.UNCALLED, clear=clear, proven=whole)
    if last in calls:
        return Unset(read, name, parameter, Why.TAKEN, calls, clear, last, False)
    why = Why.LEFT_OUT if calls else Why.CLEARED
    return Unset(read, name, parameter, why, calls, clear, last, whole and all(e.reaches for e in calls))


# Why the graph of an output does not lead to an input whose gradient was asked for, as far as the run has shown it.


@dataclass(frozen=True)
class Beside:
    """The input was made, at ``made``, of what the output depends on, and the output was not computed from it."""

    made: Frame


@dataclass(frozen=True)
class TakenOut:
    """``cut`` took the input's values out of the graph, and the output was computed from these."""

    cut: Cut
    place: Frame


@dataclass(frozen=True)
class FlaggedLate:
    """The input went into the output at ``taken``, and was let require gradients at ``flagged``, after that."""

    flagged: Frame
    taken: Frame


Reason = Beside | TakenOut | FlaggedLate


def unreached_input(program: Program) -> Reason | None:
    """What the graph and, where one was made, the second run show; None where they show no reason."""
    seen = program.evidence.extras.get("unreached")
    if not isinstance(seen, dict):
        return None
    flagged, taken = innermost_user(frames(seen.get("flagged"))), innermost_user(frames(seen.get("taken")))
    if flagged is not None and taken is not None:
        return FlaggedLate(flagged, taken)
    for cut in program.cuts:
        place = innermost_user(cut.stack)
        if place is not None and cut.reason != "missing-create-graph":
            return TakenOut(cut, place)
    made = innermost_user(frames(seen.get("stack")))
    return Beside(made) if seen.get("shares") and made is not None else None


# The inputs that a call of ``autograd.grad`` was asked for: what its output reaches, and whether a loop asks again.


@dataclass(frozen=True)
class OfAnother:
    """An input that the output does not depend on, beside inputs that it does: ``name`` belongs to ``other``'s output.

    ``reached`` are the names of the inputs of the same call that the output depends on.
    """

    name: str
    reached: tuple[str, ...]
    other: Event


def of_another_output(program: Program, index: int | None) -> OfAnother | None:
    """What is known of the input with this index in the failing call, where an earlier call's output depends on it.

    None where no earlier call is known to, where none of the other inputs is reached, or where names are missing.
    """
    asked = program.evidence.extras.get("asked")
    if not isinstance(asked, list) or index is None or not 0 <= index < len(asked) or not asked[index]:
        return None
    name = str(asked[index])
    reached = tuple(n for n in asked if n and n in program.evidence.reaches)
    other = next((e for e in reversed(program.before_failure) if name in e.reaches), None)
    return OfAnother(name, reached, other) if other is not None and reached and name not in reached else None


def asks_the_same(sources: SourceTexts, frame: Frame) -> bool:
    """Whether a call of ``autograd.grad`` asks for one and the same gradient in each round of the loop around it: of
    what it is given the loop binds nothing."""
    loop, call = node_loop_of(sources, frame), call_at(sources, frame)
    bound = plain_names(loop, ast.Store) if loop is not None else set()
    return loop is not None and call is not None and not any(plain_names(g) & bound for g in given_to(call))


# A step of an optimizer between a gradient and what is differentiated by what it has stepped.


def step_between(program: Program) -> Event | None:
    """A step that stands above the failing call in the same function, with the backward that fed it above it."""
    failing, before = program.failing, program.before_failure
    last = next((e for e in reversed(before) if e.kind == "step"), None)
    fed = next((e for e in reversed(before) if last and e.kind in DIFFERENTIATING and e.index < last.index), None)
    step, source = (place_of(program.sources, e.stack) if e is not None else None for e in (last, fed))
    if failing is None or fed is None or step is None or source is None or source.function != step.function:
        return None
    # The backward that fed the step can have come to what the gradient is asked for; perhaps no one knows.
    reached = {part for name in program.journal.reaches(fed) for part in parts_of(name)}
    if reached and not reached & asked_names(program.sources, innermost(failing.stack)) - {"parameters"}:
        return None
    mine = (f for f in failing.stack if f.user and f.in_function_of(step))
    return last if any(source.line <= step.line < f.line for f in mine) else None
