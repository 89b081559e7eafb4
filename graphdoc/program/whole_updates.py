"""Updates that one statement makes as a whole: it calls what clears gradients, differentiates a loss and steps."""

from __future__ import annotations

from graphdoc.evidence import Event, Frame
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.spans import innermost_user


def update_and_earlier(journal: Journal, failing: Event) -> tuple[Frame, Frame] | None:
    """The statement whose update has failed, and the first of those in front of it, in the same function, that made
    another update by the same helper since this one's optimizer stepped last; None where there is none.

    Each of them clears the gradients of its own optimizer before it differentiates: what another loss gives to these
    is never stepped with.
    """
    helper, works_for = innermost_user(failing.stack), journal.works_for(failing)
    if helper is None or not works_for or not _clears(journal, failing, works_for):
        return None
    first: tuple[Frame, Frame] | None = None
    for event in reversed(journal.events):
        if event.index >= failing.index or event.kind != "step":
            continue
        if event.optimizer in works_for:
            break
        at = _parting(failing, event)
        made = innermost_user(event.stack)
        if at is None or made is None or (made.file, made.function) != (helper.file, helper.function):
            continue
        call = next((e for e in reversed(journal.events) if e.index < event.index and e.kind == "backward"), None)
        if call is None or not _clears(journal, call, frozenset({event.optimizer})):
            return None
        if first is None or at[1].line < first[1].line:
            first = at
    return first


def _clears(journal: Journal, call: Event, optimizers: frozenset[int]) -> bool:
    """Whether the helper that makes a call has cleared the gradients of these optimizers just before it."""
    for event in reversed(journal.events):
        if event.index >= call.index:
            continue
        if event.kind in ("backward", "step"):
            return False
        if event.kind == "zero_grad" and event.optimizer in optimizers:
            one, other = innermost_user(event.stack), innermost_user(call.stack)
            return one is not None and other is not None and (one.file, one.function) == (other.file, other.function)
    return False


def _parting(failing: Event, step: Event) -> tuple[Frame, Frame] | None:
    """The lines of the innermost function that makes both, where that of the step stands first and calls the helper."""
    mine, its = ([f for f in e.stack if f.user] for e in (failing, step))
    for depth, (a, b) in enumerate(zip(mine, its, strict=False)):
        if (a.file, a.function) != (b.file, b.function):
            return None
        if a.extent != b.extent:
            below = len(mine) > depth + 1 and len(its) > depth + 1
            return (a, b) if below and b.line < a.line else None
    return None
