"""What a round makes of its values behind the backward call, and keeps for the next one under another name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from graphdoc.evidence import Event, Frame, Holder, Node, OlderEdge, SourceTexts, Step, Tensor
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.container_entries import statements_at
from graphdoc.program.keeping_statements import kept_name
from graphdoc.program.loops import node_loop_of
from graphdoc.program.spans import in_function
from graphdoc.source.paths import covers, last_word, pairs, same, without_subscripts


def kept_behind_call(sources: SourceTexts, nodes: list[Node], carry: OlderEdge, failing: Event | None) -> OlderEdge:
    """The edge as it is; where the round of the earlier call itself took the value up (``memory = tanh(out)`` behind
    ``backward()``), that of the name, attribute or entry which goes on to the next round instead, with no node that
    takes it up there."""
    taking = node_with(nodes, carry.consumer)
    calls = [f for f in reversed(failing.stack) if f.user] if failing is not None else []
    call = next((f for f in calls if taking is not None and in_function(taking.stack, f) is not None), None)
    at = in_function(taking.stack, call) if taking is not None and call is not None else None
    if taking is None or call is None or at is None or at.line <= call.line:
        return carry
    if in_function(taking.stack[::-1], call) is not at:
        return carry
    within = [f for f in taking.stack[taking.stack.index(at) :] if f.user]
    holder = next((h for f in within if (h := _goes_on(sources, f, call, at)) is not None), None)
    if holder is None or any(kept_name(h) == kept_name(holder) for h in carry.tensor.holders):
        return carry
    kept = Tensor("activation", holder.path, taking.shape, holders=[holder])
    return replace(carry, producer=taking.id, consumer=-1, tensor=kept)


def _goes_on(sources: SourceTexts, frame: Frame, call: Frame, at: Frame) -> Holder | None:
    """What the statement at a frame binds, where the next round reads it: a name in the loop around the call and before
    it, an attribute or an entry in any code but what follows the call at once. ``at`` is the line behind the call."""
    statement = next(iter(statements_at(sources, frame)[-1:]), None)
    target, value = _bound_at(statement, frame)
    loop = node_loop_of(sources, call)
    steps = _steps(target) if target is not None else []
    if not steps or (loop is not None and not covers(loop, at.line)):
        return None
    if target is None or value is None or _is_read_in(value, target):
        return None  # ``state = cell(x, state)``: what is taken up is cut, and what comes out of the cell trains it
    word = last_word(without_subscripts(target))
    if len(steps) == 1:
        if frame is not at or loop is None or not any(n.lineno <= call.line for n in _reads(loop, word)):
            return None
    elif not _is_read_elsewhere(sources, word, call, loop):
        return None
    base = ast.unparse(without_subscripts(target))
    return Holder(ast.unparse(target), frame.function, frame.file, steps, True, base, _structure(steps))


def _bound_at(statement: ast.stmt | None, frame: Frame) -> tuple[ast.expr | None, ast.expr | None]:
    """What an assignment binds to the value that a frame's expression stands in, and that value."""
    if not isinstance(statement, ast.Assign):
        return None, None
    every = [(t, v) for t, v in pairs(statement) if not isinstance(t, ast.Tuple | ast.List)]
    own = every if len(every) == 1 else [(target, value) for target, value in every if _holds(value, frame)]
    return own[0] if len(own) == 1 else (None, None)


def _holds(value: ast.expr, frame: Frame) -> bool:
    return any(
        isinstance(n, ast.expr) and (n.lineno, n.col_offset + 1) == (frame.line, frame.column) for n in ast.walk(value)
    )


def _structure(steps: list[Step]) -> str | None:
    return "tensor" if all(s.kind in ("name", "attribute") for s in steps) else None


def _steps(target: ast.expr) -> list[Step]:
    """The way to what a target binds: names, attributes and entries under a constant; empty for another target."""
    if isinstance(target, ast.Name):
        return [Step("name", target.id, "Tensor")]
    if isinstance(target, ast.Attribute):
        before, step = _steps(target.value), Step("attribute", target.attr, "Tensor")
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        named = isinstance(target.slice.value, str)
        before, step = _steps(target.value), Step("key" if named else "index", ast.unparse(target.slice), "Tensor")
    else:
        return []
    return [*(replace(s, type="") for s in before), step] if before else []


def _is_read_in(value: ast.expr, target: ast.expr) -> bool:
    return any(same(n, target) for n in ast.walk(value) if isinstance(n, ast.expr))


def _reads(root: ast.AST, word: str) -> Iterator[ast.Name | ast.Attribute]:
    """Where a name, or an attribute of this name, is read."""
    for n in ast.walk(root):
        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load) and last_word(n) == word:
            yield n


def _is_read_elsewhere(sources: SourceTexts, word: str, call: Frame, loop: ast.stmt | None) -> bool:
    """Whether any code of the program reads this, other than what follows the call in its loop or function."""
    root = tree(sources, call.file)
    around = loop or (function_around(root, call.line) if root is not None else None)
    if around is None:
        return False
    last = around.end_lineno or around.lineno
    roots = ((file, root) for file in sources if (root := tree(sources, file)) is not None)
    return any(
        file != call.file or not call.line < n.lineno <= last for file, root in roots for n in _reads(root, word)
    )
