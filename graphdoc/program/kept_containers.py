"""Whether a program fills one container over and over, or gives its name another one each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import SourceTexts
from graphdoc.program.bindings import text_of, tree
from graphdoc.source.paths import targets_of

_READING = frozenset(
    {"torch", "F", "np", "numpy", "len", "list", "tuple", "sum", "zip", "enumerate", "print", "sorted", "reversed"}
)
"""Functions that read a container, and modules of such."""


def is_one_container(sources: SourceTexts, file: str, path: str) -> bool:
    """Whether nothing but the start of the program binds a list or dictionary of this last name, and it is handed on:
    others hold the same one, under names of their own, and another in its place would be unknown to them. A plain name
    is one of its ``file`` alone."""
    name = path.rpartition(".")[2]
    roots = [tree(sources, f) for f in (sources if "." in path else [file])]
    late = any(_is(t, name) for root in roots for t in _bound_late(root))
    return not late and any(_is(v, name) for root in roots for v in _handed_on(root))


def _handed_on(root: ast.AST | None) -> Iterator[ast.expr]:
    """What is given to a function or class of the program as it is, or to another name."""
    for node in ast.walk(root) if root is not None else ():
        if isinstance(node, ast.Call) and text_of(node.func).partition(".")[0] not in _READING:
            yield from (*node.args, *(k.value for k in node.keywords))
        elif isinstance(node, ast.Assign):
            yield node.value


def _bound_late(root: ast.AST | None) -> Iterator[ast.expr]:
    """What is bound in loops, and in functions other than ``__init__``."""
    for node in ast.walk(root) if root is not None else ():
        late = isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef)
        if late and getattr(node, "name", "") != "__init__":
            for n in ast.walk(node):
                yield from targets_of(n)


def _is(node: ast.expr, name: str) -> bool:
    return node.attr == name if isinstance(node, ast.Attribute) else isinstance(node, ast.Name) and node.id == name
