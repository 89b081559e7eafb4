"""Losses that share an encoder and have a head with an optimizer of its own each: which steps do not part them."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import Event
from graphdoc.program.calls_in_order import Journal


def only_heads_stepped(journal: Journal, reaches: Sequence[str], freeing: Event, failing: Event) -> bool:
    """Whether what stepped between the two calls are optimizers of parameters that the failing loss never reaches.

    And whether each loss has parameters of its own, and an optimizer gathers the gradient of what both reach: it was
    set to zero before the two calls, or steps behind them, and has not stepped in between. Then the two calls are of
    one pass, and one call on the sum gives every optimizer the gradient that it was to have. ``reaches`` are the
    parameters that the failing call reaches, for want of a measurement of its own.
    """
    if failing.kind != "backward" or freeing.kind != "backward":
        return False
    mine, theirs = set(failing.reaches or reaches), set(freeing.reaches)
    holding = journal.owners.holding
    shared, own, its = holding(mine & theirs), holding(mine - theirs), holding(theirs - mine)
    stepped = journal.steps_between(freeing, failing)
    if not (stepped and shared and own and its) or own & its or shared & its:
        return False
    if stepped & holding(mine) or not stepped & its:
        return False
    return all(_gathers(journal, owner, failing, freeing) for owner in shared)


def _gathers(journal: Journal, owner: int, failing: Event, freeing: Event) -> bool:
    """Whether an optimizer is meant to step with what the two calls have added up."""
    if any(e.kind == "zero_grad" and e.optimizer in (owner, -1) for e in journal.between(freeing, failing)):
        return False
    written = journal.written_behind(owner, failing)
    if written and written != "any step":
        return written == "step"
    own = [e for e in journal.events if e.optimizer == owner and e.index < freeing.index]
    return bool(own) and own[-1].kind == "zero_grad"
