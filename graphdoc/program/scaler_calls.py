"""The calls of a GradScaler up to a refused one, ways that leave ``update`` out, steps that wait for finite numbers."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Event, Frame, Optimizer, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import scope_at, source_at
from graphdoc.program.spans import frames, in_function, innermost_user, node_loop_of, user_line
from graphdoc.source.module import each, is_method_call
from graphdoc.source.paths import called, covers, only
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
    clears = [e for e in events if e.kind == "zero_grad" and backward is not None and e.index > backward.index]
    cleared, reached = {e.optimizer for e in clears}, set(backward.reaches if backward is not None else ())
    every = optimizers and all(o.id in cleared and reached.intersection(o.parameters) for o in optimizers)
    at, of = user_line(next(reversed(clears), None)), user_line(backward)
    return (at, of) if at is not None and of is not None and every else None


def _level(now: list[Frame], earlier: list[Frame], update: list[Frame]) -> tuple[Frame, Frame]:
    """The places of the two calls in the function in which ``update`` is called; their innermost ones otherwise."""
    levels = ((in_function(now, frame), in_function(earlier, frame)) for frame in reversed(update))
    return next(((a, b) for a, b in levels if a is not None and b is not None), (now[-1], earlier[-1]))


def ways_out(sources: SourceTexts, found: Refused) -> tuple[list[Frame], Frame | None]:
    """The statements between the refused call and ``update`` that leave the iteration, and the update's statement.

    Empty where the two do not stand in one function, the update behind the call and in the same loop.
    """
    source, update, loop = (
        source_at(sources, found.now),
        _update_statement(sources, found),
        node_loop_of(sources, found.now),
    )
    if update is None or found.now.line >= update.lineno or (loop is not None and not covers(loop, update.lineno)):
        return [], None
    exits = (n for n in own_nodes(scope_at(sources, found.now)) if isinstance(n, ast.Continue | ast.Break | ast.Return))
    between = (n for n in exits if found.now.line < n.lineno < update.lineno)
    leaving = [n for n in between if isinstance(n, ast.Return) or source.node_loop(n) is loop]
    blocks = ((n, source.node_block(n)) for n in sorted(leaving, key=lambda n: n.lineno))
    # Not where the block that ends with this statement makes the same call itself.
    found_out = [n for n, (block, i) in blocks if ast.dump(update) not in map(ast.dump, block[:i])]
    first, *others = (bindings.frame_of(sources, found.now, n) for n in (update, *found_out))
    return others, first


def condition(sources: SourceTexts, found: Refused) -> Frame | None:
    """The test of the ``if`` under which ``update`` stands and the refused call does not."""
    update, source = _update_statement(sources, found), source_at(sources, found.now)
    above = (n for n in source.node_ancestors(update) if isinstance(n, ast.If)) if update is not None else iter(())
    inner = next((n for n in above if not covers(n, found.now.line)), None)
    return bindings.frame_of(sources, found.now.file, inner.test) if inner is not None else None


def under_condition(sources: SourceTexts, found: Refused) -> tuple[Frame, Frame, str] | None:
    """The ``update()`` that stands under a condition, the ``if`` around it, and its text; None where it cannot stand
    behind the ``if`` as well: more of the ``if`` than its one body calls the scaler behind it, or the ``if`` has an
    ``else``.
    """
    update, source = _update_statement(sources, found), source_at(sources, found.now)
    owner = source.parents.get(update) if update is not None else None
    if update is None or not isinstance(owner, ast.If) or owner.orelse or covers(owner, found.now.line):
        return None
    text = bindings.text_of(update.value)
    scaler, behind = text.partition(".update(")[0], owner.body[owner.body.index(update) + 1 :]
    if len(owner.body) < 2 or any(scaler in bindings.names_in(n) for s in behind for n in each(s, ast.expr)):
        return None
    return bindings.frame_of(sources, found.now, update), bindings.frame_of(sources, found.now, owner), text


def _update_statement(sources: SourceTexts, found: Refused) -> ast.Expr | None:
    """The ``update()`` that the run made last; where it made none, the only one in the refused call's function."""
    scope = scope_at(sources, found.now)
    every = [n for n in own_nodes(scope) if isinstance(n, ast.Expr) and is_method_call(n.value, "update")]
    if found.update is not None:
        same = found.update.file == found.now.file
        return next((n for n in every if same and n.lineno == found.update.line), None)
    receiver = bindings.text_of(getattr(getattr(bindings.call_at(sources, found.now), "func", None), "value", None))
    return only([n for n in every if receiver and bindings.text_of(n.value).startswith(f"{receiver}.update(")])


# Steps that are left out where a gradient or a loss is not finite: what stands beside such a step runs as rarely.

_LOOKS = frozenset({"isfinite", "isnan", "isinf"})


def is_guarded(sources: SourceTexts, step: Frame, backward: Frame) -> bool:
    """Whether the step's function decides on the step by nothing but finite numbers, and not on the backward call.

    Where something else decides on it too, gradients may be collected over several calls.
    """
    around = [n for n in each(scope_at(sources, step), ast.If) if covers(n, step.line)]
    around = [n for n in around if step.file != backward.file or not covers(n, backward.line)]
    return bool(around) and all(any(called(c) in _LOOKS for c in each(n.test, ast.Call)) for n in around)
