"""A step of an optimizer between a gradient and what is differentiated by what it has stepped."""

from __future__ import annotations

from graphdoc.evidence import Event
from graphdoc.program.idle_argument import asked_names
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost, innermost_user


def step_between(program: Program) -> Event | None:
    """A step that stands above the failing call in the same function, with the backward that fed it above it."""
    failing = program.failing
    before = program.before_failure
    last = next((e for e in reversed(before) if e.kind == "step"), None)
    if failing is None or last is None:
        return None
    here, step = innermost(failing.stack), innermost_user(last.stack)
    fed = next((e for e in reversed(before) if e.kind in ("backward", "grad") and e.index < last.index), None)
    source = innermost_user(fed.stack) if fed else None
    if here is None or step is None or fed is None or source is None or not _has_reached(program, fed, failing):
        return None
    mine = [f for f in failing.stack if f.user and f.file == step.file and f.function == step.function]
    above = any(source.line <= step.line < f.line for f in mine) and source.function == step.function
    return last if above else None


def _has_reached(program: Program, fed: Event, failing: Event) -> bool:
    """Whether the backward that fed the step can have come to what the gradient is asked for; True where no one knows
    what it reached."""
    reached = {part for name in program.journal.reaches(fed) for part in name.split(".")}
    frame = innermost(failing.stack)
    wanted = asked_names(program.sources, frame) - {"parameters"}
    return not reached or bool(wanted & reached)
