"""Statements that write a computed value behind autograd's back: `p.data = p - rate * g` carries no graph to `p`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, text_of, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.flows import made_of
from graphdoc.source.module import Loop
from graphdoc.source.paths import covers, without_subscripts

_WITHOUT_GRAPH = frozenset({"data", "detach", "item", "numpy", "grad", "shape", "device", "dtype"})
"""What is read through these does not end at the write: it has come there without a graph."""


def written_from(sources: SourceTexts, wanted: set[str], stack: Sequence[Frame]) -> list[Frame]:
    """The statements that write what they compute from one of the names into the `.data` of something else.

    Those of the functions under way on ``stack`` that stand above its call or in a loop around it, else those of other
    functions.
    """
    here: list[Frame] = []
    elsewhere: list[Frame] = []
    for file in sources:
        root = tree(sources, file)
        for scope in _scopes(root) if root is not None else ():
            name = getattr(scope, "name", "<module>")
            for s in statements(scope):
                value, target = _written(s)
                if value is None or target & wanted or not _reads(scope, value, wanted):
                    continue
                at = frame_of(sources, file, s, name)
                calls = [f for f in stack if f.user and f.file == file and _stands_in(root, scope, f.line)]
                if not calls:
                    elsewhere.append(at)
                elif any(s.lineno < f.line or _share_a_loop(scope, s.lineno, f.line) for f in calls):
                    here.append(at)
    return here or elsewhere


def _stands_in(root: ast.Module | None, scope: ast.AST, line: int) -> bool:
    """Whether a line stands in this scope itself, a function or the module."""
    return root is not None and (function_around(root, line) or root) is scope


def _scopes(root: ast.Module) -> Iterator[ast.AST]:
    yield root
    yield from (n for n in ast.walk(root) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def _written(statement: ast.stmt) -> tuple[ast.expr | None, set[str]]:
    """What a statement writes into a `.data`, and the names by which it reaches what it writes into."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
        value: ast.expr | None = statement.value
    elif isinstance(statement, ast.AugAssign):
        target, value = statement.target, statement.value
    elif isinstance(call := getattr(statement, "value", None), ast.Call) and isinstance(call.func, ast.Attribute):
        method = call.func.attr
        in_place = method.endswith("_") and not method.endswith("__")
        target, value = call.func.value, ast.Tuple(list(call.args), ast.Load())
        if not in_place:
            return None, set()
        ast.copy_location(value, call)
    else:
        return None, set()
    target = without_subscripts(target)
    if not isinstance(target, ast.Attribute) or target.attr != "data":
        return None, set()
    return value, set(text_of(target.value).replace("[", ".").split("."))


def _reads(scope: ast.AST, value: ast.expr, wanted: set[str]) -> bool:
    """Whether an expression is made of one of the names with the graph that leads to it."""
    return any(_names_with_graph(e) & wanted for e in made_of(scope, value).expressions)


def _names_with_graph(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Attribute):
        if node.attr in _WITHOUT_GRAPH:
            return set()
        return {node.attr} | _names_with_graph(node.value)
    if isinstance(node, ast.Name):
        return {node.id}
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        found |= _names_with_graph(child)
    return found


def _share_a_loop(scope: ast.AST, one: int, other: int) -> bool:
    return any(isinstance(n, Loop) and covers(n, one) and covers(n, other) for n in ast.walk(scope))
