"""A list whose entries are themselves lists or tuples of tensors: each cut in the method that puts it in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from graphdoc.evidence import Frame, Holder, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import frame_of, tree
from graphdoc.program.container_entries import MOST_PUTS, statements
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.remedies.constant_value import frame_at, together
from graphdoc.remedies.filled_store import DATA
from graphdoc.source.paths import last_word

_PUTTING = frozenset({"append", "appendleft", "insert"})


def stored_records(sources: SourceTexts, reuse: Reuse) -> list[Remedy]:
    """Cut at every statement that puts a record into the list, or a tensor into one of its records.

    The structure of the entries is what was seen in the list itself.
    """
    for holder in (h for c in reuse.carries for h in c.tensor.holders):
        record = _record(holder)
        if record is None:
            continue
        name, structure = record
        cuts: list[dict[str, Any]] = [
            {"kind": "detach_expression", "args": {"place": place(frame), "structure": inner}}
            for frame, inner in _puts(sources, name, structure)
        ]
        if 0 < len(cuts) <= MOST_PUTS:
            line = where(frame_at(cuts[0]["args"]["place"]))
            return [together(cuts, f"store it detached, at {line}", DATA)]
    return []


def _record(holder: Holder) -> tuple[str, Any] | None:
    """The name of the list and the structure of its entries; None where the holder is no tensor in a list's record."""
    if len(holder.steps) < 3 or holder.steps[-2].kind != "index" or holder.steps[-1].kind != "index":
        return None
    owner, entry = holder.steps[-3:-1]
    if owner.type not in ("list", "deque") or entry.type not in ("list", "tuple"):
        return None
    inner: Any = holder.structure.get(owner.type) if isinstance(holder.structure, dict) else None
    if isinstance(inner, list):
        inner = inner[0] if inner and all(i == inner[0] for i in inner) else None
    known = isinstance(inner, dict) and entry.type in inner and owner.kind in ("name", "attribute")
    return (owner.key, inner) if known else None


def _puts(sources: SourceTexts, name: str, structure: Any) -> Iterator[tuple[Frame, Any]]:
    """The expressions that go into such a list, or into a record of it, with their structure."""
    for file in sources:
        root = tree(sources, file)
        for scope in ast.walk(root) if root is not None else ():
            if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                continue
            for s in statements(scope):
                found = _put(s, name, structure)
                if found is not None:
                    yield frame_of(sources, file, found[0], getattr(scope, "name", "<module>")), found[1]


def _put(statement: ast.stmt, name: str, structure: Any) -> tuple[ast.expr, Any] | None:
    if isinstance(statement, ast.Expr):
        call = statement.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
            return None
        puts = call.func.attr in _PUTTING and last_word(call.func.value) == name
        return (call.args[-1], structure) if puts else None
    if not isinstance(statement, ast.Assign):
        return None
    for target in statement.targets:
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            continue
        if last_word(target.value) == name:
            return statement.value, structure
        if isinstance(target.value, ast.Subscript) and last_word(target.value.value) == name:
            return statement.value, "tensor"
    return None
