"""Whether a program fills one container over and over, or gives its name another one each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import SourceTexts
from graphdoc.program.bindings import tree
from graphdoc.source.paths import targets_of


def is_one_container(sources: SourceTexts, path: str) -> bool:
    """Whether nothing but the start of the program binds a list or dictionary of this last name: others may hold the
    same one, under names of their own, so that another in its place would be unknown to them."""
    name = path.rpartition(".")[2]
    return bool(sources) and not any(_is(t, name) for file in sources for t in _bound_late(tree(sources, file)))


def _bound_late(root: ast.AST | None) -> Iterator[ast.expr]:
    """What is bound in loops, and in functions other than ``__init__``."""
    for node in ast.walk(root) if root is not None else ():
        late = isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef)
        if late and getattr(node, "name", "") != "__init__":
            for n in ast.walk(node):
                yield from targets_of(n)


def _is(node: ast.expr, name: str) -> bool:
    return node.attr == name if isinstance(node, ast.Attribute) else isinstance(node, ast.Name) and node.id == name
