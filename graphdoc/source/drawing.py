"""Whether a piece of code draws random numbers, as far as what it calls is written in the program's own files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from graphdoc.source.effects import DRAWS, calls_of
from graphdoc.source.paths import last_word, pairs


def may_draw(trees: Iterable[ast.Module], node: ast.AST) -> bool:
    """Whether a call in it may draw: by its own name, by that of a layer that it is bound to (``nn.Dropout``), or in
    what its name is defined as.

    Names are followed by their last word, so that another definition of the same name counts too: good enough to
    choose between two ways, not to tell a reader.
    """
    definitions = _definitions(trees)
    todo: list[tuple[ast.AST, bool]] = [(node, True)]
    met: set[str] = set()
    while todo:
        piece, runs = todo.pop()
        for name in (last_word(call.func) for call in calls_of(piece)):
            if "dropout" in name.lower() or (runs and name in DRAWS):
                return True
            if name not in met:
                met.add(name)
                todo += definitions.get(name, [])
    return False


def _definitions(trees: Iterable[ast.Module]) -> dict[str, list[tuple[ast.AST, bool]]]:
    """What each name stands for, and whether a call of the name runs it. What makes an object has run before: its
    first weights are drawn once."""
    found: dict[str, list[tuple[ast.AST, bool]]] = {}
    for node in (n for tree in trees for n in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append((node, node.name != "__init__"))
        elif isinstance(node, ast.ClassDef):
            found.setdefault(node.name, []).extend(_members(node))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target, value in pairs(node):
                found.setdefault(last_word(target), []).append((value, isinstance(value, ast.Lambda)))
    return found


def _members(node: ast.ClassDef) -> Iterator[tuple[ast.AST, bool]]:
    for statement in node.body:
        yield statement, getattr(statement, "name", "") not in ("__init__", "")
