"""A statement that runs again and binds a part of its names only: ``memory, h = enc(x)`` → ``memory, _ = enc(x)``."""

from __future__ import annotations

import ast

from graphdoc.source.edits import rename
from graphdoc.source.module import Source
from graphdoc.source.places import Edit


def translates(tree: ast.AST) -> bool:
    """Whether ``_`` is read in a program, so that it is no place for what nobody wants."""
    return any(isinstance(n, ast.Name) and n.id == "_" and isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def unbound(source: Source, node: ast.stmt, names: set[str]) -> list[Edit]:
    """Put ``_`` in place of some of the names that a statement unpacks into."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
        return []
    return [rename(source, n, "_") for n in node.targets[0].elts if isinstance(n, ast.Name) and n.id in names]
