"""Branches that were not taken when the last loss was computed, read off the line that made it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame
from graphdoc.program import bindings
from graphdoc.program.exception import events_before_failure
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.program.tensors import Reached
from graphdoc.source.paths import covers


@dataclass(frozen=True)
class Branch:
    """The test of an ``if`` that did not hold, and where the loss was made that it would have added to.

    ``proven``: an earlier loss at the same place reached more parameters.
    """

    test: Frame
    made: Frame
    proven: bool


def not_taken(program: Program) -> Branch | None:
    """The ``if`` behind the line that made the last loss, in the same function, that would have made it anew.

    A tensor's node is of the last operation on it. If the last loss was made on one line, and an ``if`` further down
    assigns the same name, that ``if`` was not entered. None unless one place alone fits, and in a loop of that function
    never: there the order of the lines says nothing.
    """
    loss = _last_loss(program)
    root = bindings.tree(program.sources, loss.made.file) if loss is not None and loss.made is not None else None
    if loss is None or loss.made is None or root is None:
        return None
    made = loss.made
    scope = bindings.function_around(root, made.line)
    if scope is None:
        return None
    parts = list(bindings.shallow(scope))
    assigned = next((n for n in parts if isinstance(n, ast.Assign) and covers(n, made.line)), None)
    name = bindings.text_of(assigned.targets[0]) if assigned is not None else ""
    loops = [n for n in parts if isinstance(n, ast.For | ast.While) and covers(n, made.line)]
    if not name or loops:
        return None
    found = [
        n
        for n in parts
        if isinstance(n, ast.If) and n.lineno > made.line and _binds(n.body, name) and not _binds(n.orelse, name)
    ]
    if len(found) != 1 or any(_binds([n], name) for n in parts if _between(n, made.line, found[0])):
        return None
    return Branch(
        bindings.frame_of(program.sources, made.file, found[0].test, scope.name),
        made,
        _reached_more(program.evidence.events, program.failing),
    )


def _reached_more(events: list[Event], failing_call: Event | None) -> bool:
    """Whether an earlier backward from the place of the last one reached parameters that the last did not."""
    calls = [e for e in events_before_failure(events, failing_call) if e.kind == "backward"]
    if not calls or not calls[-1].reaches:
        return False
    now = set(calls[-1].reaches)
    return any(e.stack == calls[-1].stack and set(e.reaches) > now for e in calls[:-1])


def _last_loss(program: Program) -> Reached | None:
    """The tensor on which the last backward was called, if the program still holds it under that name."""
    last = next(
        (e for e in reversed(program.before_failure) if e.kind == "backward"),
        None,
    )
    frame = innermost_user(last.stack) if last else None
    call = bindings.call_at(program.sources, frame)
    if last is None or call is None or not isinstance(call.func, ast.Attribute):
        return None
    name = bindings.text_of(call.func.value)
    known = next((t for t in program.tensors if t.path == name), None)
    return known if known is not None and known.op == last.root_op else None


def _between(node: ast.AST, line: int, end: ast.If) -> bool:
    """Whether the statement stands behind the line and outside the ``if``: it would have made the loss anew."""
    at = getattr(node, "lineno", 0)
    return isinstance(node, ast.stmt) and at > line and not covers(end, at)


def _binds(body: list[ast.stmt] | list[ast.AST], name: str) -> bool:
    for statement in body:
        for node in ast.walk(statement):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AugAssign):
                targets = [node.target]
            if any(bindings.text_of(t) == name for t in targets):
                return True
    return False
