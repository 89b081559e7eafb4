"""A loss that takes what was computed once, outside of the function, where the function computes the same in each pass
and nothing reads it: a name that was meant to be the local one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import assignments, frame_of, function_around, text_of, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place
from graphdoc.remedies.computed_anew import statement_around
from graphdoc.remedies.constant_value import together
from graphdoc.source.paths import covers


def unread_value(program: Program, reuse: Reuse) -> list[Remedy]:
    """Read the local value instead, wherever the function reads the other one."""
    found = {n for c in reuse.carries if (n := _found(program, c.consumer, c.producer)) is not None}
    if len(found) != 1:
        return []
    ((file, line, name, twin),) = found
    root = tree(program.sources, file)
    scope = function_around(root, line) if root is not None else None
    edits: list[dict[str, Any]] = [
        {"kind": "use_instead", "args": {"place": place(at), "operand": name, "name": twin}}
        for at in (_reads(program.sources, file, scope, name) if scope is not None else ())
    ]
    note = (
        f"`{twin}` is computed in each pass and nothing reads it. The loss then gives its gradient to what this pass "
        "has computed."
    )
    return [together(edits, f"use `{twin}`, computed for this loss, in place of `{name}`", note)] if edits else []


def _found(program: Program, consumer: int, producer: int) -> tuple[str, int, str, str] | None:
    """File and line of a read, the name that is read there, and the local one that nothing reads."""
    taken, made = program.node(consumer), program.node(producer)
    read = innermost_user(taken.stack) if taken is not None else None
    root = tree(program.sources, read.file) if read is not None else None
    scope = function_around(root, read.line) if root is not None and read is not None else None
    if read is None or made is None or scope is None:
        return None
    here = {n.id for n in _names(scope) if isinstance(n.ctx, ast.Load) and n.lineno == read.line}
    bound = {n.id for n in _names(scope) if isinstance(n.ctx, ast.Store)}
    for name in sorted(here - bound):
        for at, value in assignments(program.sources, read, name)[:1]:
            if any(f.file == at.file and at.line <= f.line <= at.end_line for f in made.stack):
                twin = _twin(program.sources, scope, read, name, at, value)
                if twin:
                    return read.file, read.line, name, twin
    return None


def _twin(sources: SourceTexts, scope: ast.AST, read: Frame, name: str, at: Frame, value: ast.expr) -> str:
    """The name in this function that the same call has given its value, in the same place of what it gives, and that
    nothing reads; empty where there is none or more than one."""
    outer = next((s for s in statements(tree(sources, at.file) or ast.Module([], [])) if s.lineno == at.line), None)
    position = next((p for n, p in _targets(outer) if n == name), None) if outer is not None else None
    if not isinstance(value, ast.Call) or position is None:
        return ""
    loads = {n.id for n in _names(scope) if isinstance(n.ctx, ast.Load)}
    twins = [
        n
        for s in statements(scope)
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and s.lineno < read.line
        if text_of(s.value.func) == text_of(value.func)
        for n, p in _targets(s)
        if p == position and n not in loads
    ]
    return twins[0] if len(twins) == 1 else ""


def _targets(statement: ast.stmt) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names that an assignment binds, each with its place in what is taken apart."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Name):
            yield target.id, ()
        elif isinstance(target, ast.Tuple | ast.List):
            for i, element in enumerate(target.elts):
                if isinstance(element, ast.Name):
                    yield element.id, (i,)


def _names(scope: ast.AST) -> list[ast.Name]:
    return [n for n in ast.walk(scope) if isinstance(n, ast.Name)]


def _reads(sources: SourceTexts, file: str, scope: ast.AST, name: str) -> list[Frame]:
    """Where this name is read, once for each statement: an edit of a statement changes all that it holds."""
    out: list[Frame] = []
    done: list[ast.stmt] = []
    for node in sorted(_names(scope), key=lambda n: (n.lineno, n.col_offset)):
        if node.id != name or not isinstance(node.ctx, ast.Load) or any(covers(s, node.lineno) for s in done):
            continue
        at = frame_of(sources, file, node)
        around = statement_around(scope, at)
        if around is not None:
            done.append(around)
            out.append(at)
    return out
