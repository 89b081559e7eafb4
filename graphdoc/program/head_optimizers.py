"""Losses that share an encoder and have a head with an optimizer of its own each: which steps do not part them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from graphdoc.evidence import Event
from graphdoc.program.bindings import function_around, parsed
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.spans import innermost_user


def only_heads_stepped(
    journal: Journal, sources: Mapping[str, str], reaches: Sequence[str], freeing: Event, failing: Event
) -> bool:
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
    if not (stepped and shared and own and its) or own & its or shared & (own | its):
        return False
    if stepped & holding(mine) or not stepped & its:
        return False
    return all(_gathers(journal, sources, owner, failing, freeing) for owner in shared)


def _gathers(journal: Journal, sources: Mapping[str, str], owner: int, failing: Event, freeing: Event) -> bool:
    """Whether an optimizer is meant to step with what the two calls have added up."""
    if any(e.kind == "zero_grad" and e.optimizer in (owner, -1) for e in journal.between(freeing, failing)):
        return False
    written = _written_behind(journal, sources, owner, failing)
    if written:
        return written == "step"
    own = [e for e in journal.events if e.optimizer == owner and e.index < freeing.index]
    return bool(own) and own[-1].kind == "zero_grad"


def _written_behind(journal: Journal, sources: Mapping[str, str], owner: int, failing: Event) -> str:
    """What comes first behind the call in its function: the optimizer's ``step``, its ``zero_grad`` or another call
    of ``backward``; empty where the function does none of them."""
    frame = innermost_user(failing.stack)
    optimizer = next((o for o in journal.owners.optimizers if o.id == owner), None)
    root = parsed(sources.get(frame.file, "")) if frame is not None else None
    if frame is None or root is None or optimizer is None or not optimizer.name:
        return ""
    names = {optimizer.name, optimizer.name.rsplit(".", 1)[-1]}
    calls = [
        n
        for n in ast.walk(function_around(root, frame.line) or root)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.lineno > frame.line
    ]
    for call in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
        assert isinstance(call.func, ast.Attribute)
        method = call.func.attr
        if method == "backward":
            return method
        text = ast.unparse(call.func.value)
        if method in ("step", "zero_grad") and names & {text, text.rsplit(".", 1)[-1]}:
            return method
    return ""
