"""The calls of a GradScaler up to a refused one, ways that leave ``update`` out, steps that wait for finite numbers."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Event, Frame, Optimizer, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import scope_at
from graphdoc.program.spans import frames, in_function, innermost_user
from graphdoc.source.module import Loop, each, is_method_call
from graphdoc.source.paths import blocks_of, covers, last_word, only
from graphdoc.source.scopes import own_nodes


@dataclass(frozen=True)
class Refused:
    """The call that the scaler refused, and the earlier one because of which it did.

    ``backwards`` are the backward calls between the two, ``waiting`` those since the last ``update``; -1 where no
    update was seen.
    """

    now: Frame
    earlier: Frame
    kind: str
    update: Frame | None
    backwards: int
    waiting: int
    zeroed: bool = False
    """Whether the gradients of the iteration before were cleared between the two calls."""
    stepped: bool = False
    """Whether the scaler was asked for a step between the two calls."""


@dataclass(frozen=True)
class Call:
    kind: str
    stack: list[Frame]
    index: int


def refused(events: list[Event], extras: dict[str, Any], *kinds: str) -> Refused | None:
    """The refused call and the one of these kinds before it, if no ``update`` came in between; None if not observed."""
    told = extras.get("scaler")
    calls = [
        Call(str(c.get("kind")), [f for f in frames(c.get("stack")) if f.user], int(c.get("index", -1)))
        for c in (told if isinstance(told, list) else [])
        if isinstance(c, dict)
    ]
    if not calls or not calls[-1].stack:
        return None
    last = calls[-1]
    updates = [i for i, c in enumerate(calls) if c.kind == "update"]
    since = calls[updates[-1] + 1 : -1] if updates else calls[:-1]
    earlier = next((c for c in reversed(since) if c.kind in kinds and c.stack), None)
    if earlier is None:
        return None
    update = calls[updates[-1]] if updates else None
    back = [e.index for e in events if e.kind == "backward"]
    now, once = _level(last.stack, earlier.stack, update.stack if update else [])
    return Refused(
        now,
        once,
        earlier.kind,
        innermost_user(update.stack) if update else None,
        sum(earlier.index <= i < last.index for i in back),
        sum(update.index <= i < last.index for i in back) if update else -1,
        any(e.kind == "zero_grad" and earlier.index <= e.index < last.index for e in events),
        any(c.kind == "step" for c in calls[calls.index(earlier) + 1 : -1]),
    )


def cleared_since_backward(events: list[Event], optimizers: list[Optimizer]) -> tuple[Frame, Frame] | None:
    """The call that cleared every optimizer's gradients after the last backward, and that backward.

    None where some optimizer was not cleared since or nothing of it was reached (then its gradients are missing for
    another reason), or where no backward was seen.
    """
    backward = next((e for e in reversed(events) if e.kind == "backward" and not e.failed), None)
    if backward is None:
        return None
    clears = [e for e in events if e.kind == "zero_grad" and e.index > backward.index]
    reached, cleared = set(backward.reaches), {e.optimizer for e in clears}
    if not optimizers or any(o.id not in cleared or not reached.intersection(o.parameters) for o in optimizers):
        return None
    at, of = innermost_user(clears[-1].stack), innermost_user(backward.stack)
    return (at, of) if at is not None and of is not None else None


def _level(now: list[Frame], earlier: list[Frame], update: list[Frame]) -> tuple[Frame, Frame]:
    """The places of the two calls in the function in which ``update`` is called; their innermost ones otherwise."""
    for frame in reversed(update):
        here = [in_function(s, frame) for s in (now, earlier)]
        if here[0] is not None and here[1] is not None:
            return here[0], here[1]
    return now[-1], earlier[-1]


def ways_out(sources: SourceTexts, found: Refused) -> tuple[list[Frame], Frame | None]:
    """The statements between the refused call and ``update`` that leave the iteration, and the update's statement.

    Empty where the two do not stand in one function, the update behind the call and in the same loop.
    """
    scope, update = scope_at(sources, found.now), _update_statement(sources, found)
    if update is None:
        return [], None
    loop = _innermost_loop(scope, found.now.line)
    if not found.now.line < update.lineno or (loop is not None and not covers(loop, update.lineno)):
        return [], None
    exits = [n for n in own_nodes(scope) if isinstance(n, ast.Continue | ast.Break | ast.Return)]
    leaving = [
        n
        for n in exits
        if found.now.line < n.lineno < update.lineno
        and (isinstance(n, ast.Return) or _innermost_loop(scope, n.lineno) is loop)
        and not _made_before(scope, n, update)
    ]
    leaving.sort(key=lambda n: n.lineno)
    return (
        [bindings.frame_of(sources, found.now, n) for n in leaving],
        bindings.frame_of(sources, found.now, update),
    )


def condition(sources: SourceTexts, found: Refused) -> Frame | None:
    """The test of the ``if`` under which ``update`` stands and the refused call does not."""
    root, update = bindings.tree(sources, found.now.file), _update_statement(sources, found)
    if update is None:
        return None
    around = [n for n in each(root, ast.If) if covers(n, update.lineno) and not covers(n, found.now.line)]
    inner = max(around, key=lambda n: n.lineno, default=None)
    return bindings.frame_of(sources, found.now.file, inner.test) if inner is not None else None


def under_condition(sources: SourceTexts, found: Refused) -> tuple[Frame, Frame, str] | None:
    """The ``update()`` that stands under a condition, the ``if`` around it, and its text; None where it cannot stand
    behind the ``if`` as well: more of the ``if`` than its one body calls the scaler behind it, or the ``if`` has an
    ``else``.
    """
    root, update = bindings.tree(sources, found.now.file), _update_statement(sources, found)
    if update is None:
        return None
    owner = next((n for n in each(root, ast.If) if update in n.body), None)
    if owner is None or owner.orelse or covers(owner, found.now.line) or len(owner.body) < 2:
        return None
    text = bindings.text_of(update.value)
    scaler = text.partition(".update(")[0]
    behind = owner.body[owner.body.index(update) + 1 :]
    if any(scaler in bindings.names_in(n) for s in behind for n in each(s, ast.expr)):
        return None
    file, function = found.now.file, found.now.function
    return bindings.frame_of(sources, file, update, function), bindings.frame_of(sources, file, owner, function), text


def _update_statement(sources: SourceTexts, found: Refused) -> ast.Expr | None:
    """The ``update()`` that the run made last; where it made none, the only one in the refused call's function."""
    scope = scope_at(sources, found.now)
    every = [n for n in own_nodes(scope) if isinstance(n, ast.Expr) and is_method_call(n.value, "update")]
    if found.update is not None:
        same = found.update.file == found.now.file
        return next((n for n in every if same and n.lineno == found.update.line), None)
    receiver = bindings.text_of(getattr(getattr(bindings.call_at(sources, found.now), "func", None), "value", None))
    return only([n for n in every if receiver and bindings.text_of(n.value).startswith(f"{receiver}.update(")])


def _innermost_loop(scope: ast.AST, line: int) -> ast.stmt | None:
    loops = [n for n in own_nodes(scope) if isinstance(n, Loop) and covers(n, line)]
    return max(loops, key=lambda n: n.lineno, default=None)


def _made_before(scope: ast.AST, node: ast.stmt, update: ast.Expr) -> bool:
    """Whether the block that ends with this statement makes the same call itself."""
    blocks = (block for parent in (scope, *own_nodes(scope)) for block in blocks_of(parent) if node in block)
    return any(ast.dump(b) == ast.dump(update) for block in blocks for b in block[: block.index(node)])


# Steps that are left out where a gradient or a loss is not finite: what stands beside such a step runs as rarely.

_LOOKS = frozenset({"isfinite", "isnan", "isinf"})


def is_guarded(sources: SourceTexts, step: Frame, backward: Frame) -> bool:
    """Whether the step's function decides on the step by nothing but finite numbers, and not on the backward call.

    Where something else decides on it too, gradients may be collected over several calls.
    """
    around = [n for n in each(scope_at(sources, step), ast.If) if covers(n, step.line)]
    if step.file == backward.file:
        around = [n for n in around if not covers(n, backward.line)]
    return bool(around) and all(any(last_word(c.func) in _LOOKS for c in each(n.test, ast.Call)) for n in around)
