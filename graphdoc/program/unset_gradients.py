"""Why the gradient of a parameter is None where the program reads it: by the calls that could have filled it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from graphdoc.evidence import Event, Frame, Parameter
from graphdoc.program.gradient_reads import gradients_within
from graphdoc.program.observed import Program


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
    if last is not None and last in calls:
        return Unset(read, name, parameter, Why.TAKEN, calls, clear, last, False)
    measured = whole and all(e.reaches for e in calls)
    if calls:
        return Unset(read, name, parameter, Why.LEFT_OUT, calls, clear, last, measured)
    return Unset(read, name, parameter, Why.CLEARED, (), clear, last, whole)
