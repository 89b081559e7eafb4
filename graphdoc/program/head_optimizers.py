"""Losses that share an encoder and have a head with an optimizer of its own each: which steps do not part them."""

from __future__ import annotations

import ast

from graphdoc.evidence import Event, Evidence
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.spans import innermost_user


def only_heads_stepped(evidence: Evidence, failing: Event | None, freeing: Event | None) -> bool:
    """Whether what stepped between the two calls are optimizers of parameters that the failing loss never reaches.

    And whether each loss has parameters of its own, and an optimizer gathers the gradient of what both reach: it was
    set to zero before the two calls, or steps behind them, and has not stepped in between. Then the two calls are of
    one pass, and one call on the sum gives every optimizer the gradient that it was to have.
    """
    if failing is None or freeing is None or failing.kind != "backward" or freeing.kind != "backward":
        return False
    mine, theirs = set(failing.reaches or evidence.reaches), set(freeing.reaches)
    shared = owners_of(evidence, mine & theirs)
    own, its = owners_of(evidence, mine - theirs), owners_of(evidence, theirs - mine)
    stepped = {e.optimizer for e in _between(evidence, freeing, failing) if e.kind == "step"}
    if not (stepped and shared and own and its) or own & its or shared & (own | its):
        return False
    if stepped & owners_of(evidence, mine) or not stepped & its:
        return False
    return all(_gathers(evidence, owner, failing, freeing) for owner in shared)


def owners_of(evidence: Evidence, names: set[str]) -> set[int]:
    """The optimizers that hold any of these parameters."""
    return {o.id for o in evidence.optimizers if names & set(o.parameters)}


def _between(evidence: Evidence, freeing: Event, failing: Event) -> list[Event]:
    return [e for e in evidence.events if freeing.index < e.index < failing.index]


def _gathers(evidence: Evidence, owner: int, failing: Event, freeing: Event) -> bool:
    """Whether an optimizer is meant to step with what the two calls have added up."""
    if any(e.kind == "zero_grad" and e.optimizer in (owner, -1) for e in _between(evidence, freeing, failing)):
        return False
    written = _written_behind(evidence, owner, failing)
    if written:
        return written == "step"
    own = [e for e in evidence.events if e.optimizer == owner and e.index < freeing.index]
    return bool(own) and own[-1].kind == "zero_grad"


def _written_behind(evidence: Evidence, owner: int, failing: Event) -> str:
    """What comes first behind the call in its function: the optimizer's ``step``, its ``zero_grad`` or another call
    of ``backward``; empty where the function does none of them."""
    frame = innermost_user(failing.stack)
    optimizer = evidence.optimizer(owner)
    root = tree(evidence, frame.file) if frame is not None else None
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
