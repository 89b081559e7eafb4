"""Whether a value flows from one place of the source to another, through the assignments of one function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, names_in, shallow, tree
from graphdoc.source.module import Loop
from graphdoc.source.paths import covers

MOST_STEPS = 60
"""Assignments that are followed from one place."""
_BRANCHING = (ast.If, ast.Try, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
Arm = tuple[ast.AST, str]
"""A statement that need not run all of its blocks, and which of them."""
Bound = tuple[ast.stmt, ast.expr, bool]
"""A statement that gives a name a value, that value, and whether the name keeps what it had as well."""


class Flow(Enum):
    """Whether a value flows there."""

    YES = "what is computed at the one place enters the other, on some way through the function"
    NO = "nothing at the second place is made of it"
    UNKNOWN = "it may: by another function, by an attribute, or by the loop's last round"


def flow(sources: SourceTexts, source: Frame, sink: Frame) -> Flow:
    """Whether what is computed at ``source`` enters what is computed at ``sink``, further down in the same function."""
    root = tree(sources, source.file)
    if root is None or source.file != sink.file:
        return Flow.UNKNOWN
    if (source.line, source.column) == (sink.line, sink.column):
        return Flow.UNKNOWN  # only by a loop, or by a call of the same function
    scope = function_around(root, source.line)
    if scope is not function_around(root, sink.line):
        return Flow.UNKNOWN
    read = [
        n
        for n in shallow(scope or root)
        if isinstance(n, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return)
        if covers(n, sink.line) and n.value is not None
    ]
    found = {flow_into(sources, scope or root, n.value, source) for n in read if n.value is not None}
    return next((f for f in (Flow.YES, Flow.UNKNOWN) if f in found), Flow.NO if found else Flow.UNKNOWN)


def flow_into(sources: SourceTexts, scope: ast.AST, value: ast.expr, source: Frame) -> Flow:
    """The same for an expression ``value`` of the function ``scope``, in the file of ``source``."""
    behind = made_of(scope, value, lambda e: _covers(frame_of(sources, source.file, e), source))
    if behind.found:
        return Flow.YES
    return Flow.NO if behind.whole else Flow.UNKNOWN


@dataclass(frozen=True)
class Behind:
    """What an expression is made of: the expressions behind it, itself first, by the assignments of its function.

    ``found`` are those that were looked for, behind which nothing was followed; ``whole`` says that nothing is left
    that could flow in as well, by an attribute, a loop's last round or in more steps.
    """

    expressions: tuple[ast.expr, ...]
    found: tuple[ast.expr, ...]
    whole: bool


def made_of(
    scope: ast.AST,
    value: ast.expr,
    wanted: Callable[[ast.expr], bool] = lambda _: False,
    most: int = MOST_STEPS,
    ends: Collection[str] | None = None,
) -> Behind:
    """Follows an expression of the function ``scope`` back through at most so many assignments on one way.

    One that is ``wanted`` is not followed further; where ``ends`` names what it is wanted for, its other names are.
    """
    blocks = _Blocks(scope)
    todo: list[tuple[ast.expr, int]] = [(value, 0)]
    seen: set[tuple[str, int]] = set()
    every: list[ast.expr] = []
    found: list[ast.expr] = []
    doubt = False
    while todo and len(every) < MOST_STEPS:
        expression, level = todo.pop(0)
        every.append(expression)
        if wanted(expression):
            found.append(expression)
            if ends is None:
                continue
        for name in names_in(expression):
            if any(path in (ends or ()) for path in _paths(name)):
                continue
            if (name, expression.lineno) in seen:
                continue
            seen.add((name, expression.lineno))
            given = False
            for path in _paths(name):
                values, later = blocks.values_of(path, expression.lineno)
                doubt, given = doubt or later or (bool(values) and level >= most), given or bool(values)
                todo += [(v, level + 1) for v in values if level < most]
            doubt = doubt or ("." in name and not given)
    return Behind(tuple(every), tuple(found), not (doubt or todo))


def _paths(name: str) -> list[str]:
    """``loss.sum`` is made of what ``loss`` was given as well as of what was given to it by that path."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


class _Blocks:
    """The statements of one function with the blocks that they stand in."""

    def __init__(self, scope: ast.AST) -> None:
        self.bound: list[tuple[str, Bound]] = []
        self.above: dict[ast.stmt, frozenset[Arm]] = {}
        self._walk(scope, frozenset())
        self.bound.sort(key=lambda b: b[1][0].lineno)

    def _walk(self, node: ast.AST, above: frozenset[Arm]) -> None:
        for name, content in ast.iter_fields(node):
            branch = above | {(node, name)} if isinstance(node, _BRANCHING) else above
            for child in content if isinstance(content, list) else ():
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    continue
                if isinstance(child, ast.stmt):
                    self.above[child] = branch
                    self._bind(child)
                if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                    self._walk(child, branch)

    def _bind(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                self._pair(statement, target, statement.value, False)
        elif isinstance(statement, ast.AugAssign):
            self._pair(statement, statement.target, statement.value, True)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._pair(statement, statement.target, statement.value, False)
        elif isinstance(statement, ast.For):
            self._pair(statement, statement.target, statement.iter, False)

    def _pair(self, statement: ast.stmt, target: ast.expr, value: ast.expr, kept: bool) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            matched = len(values) == len(target.elts) and not isinstance(statement, ast.For)
            for i, one in enumerate(target.elts):
                self._pair(statement, one, values[i] if matched else value, kept)
        elif isinstance(target, ast.Subscript):
            self._pair(statement, target.value, value, True)
        else:
            self.bound += [(name, (statement, value, kept)) for name in names_in(target)]

    def values_of(self, name: str, line: int) -> tuple[list[ast.expr], bool]:
        """What the name can have been given above a line, and whether a loop around the line gives it more below."""
        here = max((s for s in self.above if s.lineno <= line), key=lambda s: s.lineno, default=None)
        around = self.above[here] if here is not None else frozenset()
        of_name = [b for n, b in self.bound if n == name]
        values: list[ast.expr] = []
        for statement, value, kept in reversed([b for b in of_name if b[0].lineno < line]):
            values.append(value)
            if not kept and self.above[statement] <= around:
                break  # whatever it had before is gone on every way to here
        ends = [n.end_lineno or 0 for n, _ in around if isinstance(n, Loop)]
        later = any(line <= s.lineno <= max(ends, default=0) for s, _, _ in of_name)
        return values, later


def _covers(place: Frame, source: Frame) -> bool:
    """Whether a place contains another one; of one without columns the line decides."""
    if not place.line <= source.line <= (place.end_line or place.line):
        return False
    if source.column <= 0 or place.line != place.end_line or source.line != place.line:
        return True
    return place.column <= source.column and max(source.end_column, source.column) <= place.end_column
