"""How an entry of a store was computed, as one expression of what is stored beside it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import dotted, function_around, tree
from graphdoc.program.container_entries import (
    Entry,
    fields_of,
    given,
    statements,
)
from graphdoc.source.effects import DRAWS, TAKES
from graphdoc.source.paths import last_word, pairs, targets_of
from graphdoc.source.scopes import parameters

LONGEST = 160
"""Characters of an expression that still reads well in place of a name."""
_DEEPEST = 8
"""Assignments that one expression is followed through."""
_DRAWING = DRAWS | TAKES | {"item"}
"""Methods and functions whose second call gives something else than the first, or takes something away."""


@dataclass(frozen=True)
class Recipe:
    """How an entry is computed: an expression over what is stored beside it, and where each of those is stored.

    ``siblings`` are pairs of the name in the expression and of the list, or the field of the same entry.
    """

    place: tuple[str, int]
    field: tuple[str, str] | None
    value: str
    siblings: tuple[tuple[str, str], ...]


def recipe_of(sources: SourceTexts, frame: Frame, statement: ast.stmt, entry: Entry) -> Recipe | None:
    """How the entry that a statement stores is computed from what is stored beside it; None where it is not."""
    root = tree(sources, frame.file)
    scope = (function_around(root, frame.line) or root) if root is not None else None
    value = given(sources, statement, entry)
    if scope is None or value is None:
        return None
    kept = _fields(sources, statement, entry) if entry.field is not None else filled_beside(scope, statement)
    return computed_from(scope, statement, value, kept, entry, frame)


def computed_from(
    scope: ast.AST, statement: ast.stmt, value: ast.expr, kept: Sequence[_Kept], entry: Entry, frame: Frame
) -> Recipe | None:
    inline = _Inline(scope, statement, kept)
    try:
        made = inline.visit(copy.deepcopy(value))
    except _Unknown:
        return None
    made = _together(made)
    text = ast.unparse(made)
    calls = [n for n in ast.walk(made) if isinstance(n, ast.Call)]
    # A network that is called twice for two of its results has no short expression.
    if not inline.used or not calls or len({ast.unparse(c) for c in calls}) < len(calls) or len(text) > LONGEST:
        return None
    siblings = tuple((name, at) for name, at in inline.used.items())
    told = (entry.field.kind, entry.field.key) if entry.field is not None else None
    return Recipe((frame.file, frame.line), told, text, siblings)


class _Unknown(Exception):
    """A part of the expression cannot be had where the store is read."""


@dataclass
class _Kept:
    """What is stored beside an entry: its expression, the list or field that holds it, and the line that stores it."""

    text: str
    at: str
    line: int


@dataclass
class _Inline(ast.NodeTransformer):
    """Puts in place of each local name what it was computed from, as far as to what is kept."""

    scope: ast.AST
    statement: ast.stmt
    kept: Sequence[_Kept]
    line: int = 0
    used: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def visit(self, node: ast.AST) -> ast.AST:
        line = self.line or self.statement.lineno
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        found = next((k for k in self.kept if k.text == text and self._unchanged(node, k.line, line)), None)
        if found is not None:
            name = found.text if found.text.isidentifier() else f"{found.at.rpartition('.')[2].strip(chr(39))}_"
            if not name.isidentifier() or self.used.get(name, found.at) != found.at:
                raise _Unknown
            self.used[name] = found.at
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda | ast.comprehension):
            raise _Unknown
        if isinstance(node, ast.Call) and last_word(node.func) in _DRAWING:
            raise _Unknown
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return self._name(node, line)
        return super().generic_visit(node)

    def _name(self, node: ast.Name, line: int) -> ast.AST:
        bound = list(_bound_at(self.scope, node.id))
        arguments = parameters(self.scope) if isinstance(self.scope, ast.FunctionDef | ast.AsyncFunctionDef) else []
        if node.id in arguments:
            if not bound and arguments[0] == node.id == "self":
                return node
            raise _Unknown
        above = [b for b in bound if b.lineno < line]
        if not any(self._renewed(b) for b in bound):
            return node  # the same for every entry; whether it can be read elsewhere is seen there
        value = _value_of(above[-1], node.id) if above and self._renewed(above[-1]) else None
        if value is None or self.depth > _DEEPEST or not self._on_the_way(above[-1]):
            raise _Unknown
        before, self.line = self.line, above[-1].lineno
        self.depth += 1
        made: ast.AST = self.visit(copy.deepcopy(value))
        self.line, self.depth = before, self.depth - 1
        return made

    def _renewed(self, bound: ast.stmt) -> bool:
        """Whether a statement runs anew for each entry: in the innermost loop around the store, if there is one."""
        loops = [n for n in ast.walk(self.scope) if isinstance(n, ast.For | ast.While) and _within(n, self.statement)]
        inner = max(loops, key=lambda n: n.lineno, default=None)
        return _within(inner, bound) if inner is not None else not isinstance(self.scope, ast.Module)

    def _on_the_way(self, bound: ast.stmt) -> bool:
        """Whether a statement always runs before the store does: in its block, or in one around it."""
        return any(bound in block for block in _blocks_around(self.scope, self.statement))

    def _unchanged(self, node: ast.AST, kept: int, used: int) -> bool:
        """Whether no name of an expression is bound anew between the line that keeps it and the one that uses it."""
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        low, high = sorted((kept, used))
        return not any(low <= b.lineno < high for name in names for b in _bound_at(self.scope, name))


def _within(outer: ast.AST, inner: ast.stmt) -> bool:
    return any(n is inner for n in ast.walk(outer)) and inner is not outer


def _bound_at(scope: ast.AST, name: str) -> Iterator[ast.stmt]:
    """The statements of a scope that bind a name, or write to what it names, in order."""
    for s in statements(scope):
        if any(isinstance(n, ast.Name) and n.id == name for t in targets_of(s) for n in ast.walk(t)):
            yield s


def _value_of(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a plain assignment binds to a name; the element of a call's result where it is taken apart."""
    for target, value in pairs(statement):
        if isinstance(target, ast.Name) and target.id == name:
            return value
        if isinstance(target, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in target.elts):
            for i, e in enumerate(target.elts):
                if isinstance(e, ast.Name) and e.id == name:
                    return ast.Subscript(copy.deepcopy(value), ast.Constant(i), ast.Load())
    return None


def _together(node: ast.AST) -> ast.AST:
    """``f(net(x)[0], net(x)[1])`` as ``f(*net(x))``."""
    for call in [n for n in ast.walk(node) if isinstance(n, ast.Call)]:
        parts = [a for a in call.args if isinstance(a, ast.Subscript) and isinstance(a.slice, ast.Constant)]
        if len(parts) < 2 or len(parts) != len(call.args):
            continue
        same = len({ast.unparse(p.value) for p in parts}) == 1 and isinstance(parts[0].value, ast.Call)
        if same and [p.slice.value for p in parts if isinstance(p.slice, ast.Constant)] == list(range(len(parts))):
            call.args = [ast.Starred(parts[0].value, ast.Load())]
    return node


def _blocks_around(scope: ast.AST, statement: ast.stmt) -> list[list[ast.stmt]]:
    """The block that a statement stands in, and those around it, as far as to its scope."""
    out: list[list[ast.stmt]] = []

    def look(node: ast.AST) -> bool:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and any(s is statement or look(s) for s in block):
                out.append(block)
                return True
        return False

    look(scope)
    return out


def filled_beside(scope: ast.AST, statement: ast.stmt) -> list[_Kept]:
    """What the statements beside this one append to lists of the same owner: one entry each time."""
    mine = appended_by(statement)
    blocks = _blocks_around(scope, statement)
    if mine is None or not blocks:
        return []
    found = [(s, a) for s in blocks[0] if s is not statement and (a := appended_by(s)) is not None]
    return [
        _Kept(ast.unparse(value), path, s.lineno)
        for s, (path, value) in found
        if path.rpartition(".")[0] == mine[0].rpartition(".")[0] and path != mine[0]
    ]


def appended_by(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The list, by its dotted name, and what is appended to it."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return None
    path = dotted(call.func.value)
    return (path, call.args[0]) if path and len(call.args) == 1 and not call.keywords else None


def _fields(sources: SourceTexts, statement: ast.stmt, entry: Entry) -> list[_Kept]:
    """The other fields of the entry that a statement puts together."""
    value: ast.expr | None = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        value = value.args[-1] if value.args else None
    parts: Mapping[str, ast.expr] = {}
    if isinstance(value, ast.Tuple | ast.List):
        parts = {str(i): e for i, e in enumerate(value.elts)}
    elif isinstance(value, ast.Dict):
        parts = {ast.unparse(k): v for k, v in zip(value.keys, value.values, strict=True) if k is not None}
    elif isinstance(value, ast.Call):
        parts = {k.arg: k.value for k in value.keywords if k.arg}
        parts = {**dict(zip(fields_of(sources, entry.type), value.args, strict=False)), **parts}
    own = entry.field.key if entry.field is not None else ""
    return [_Kept(ast.unparse(v), at, statement.lineno) for at, v in parts.items() if at != own]
