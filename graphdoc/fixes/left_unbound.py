"""A statement that runs again and binds a part of its names only: ``memory, h = enc(x)`` → ``memory, _ = enc(x)``."""

from __future__ import annotations

import ast

from graphdoc.source.module import Source
from graphdoc.source.places import Edit


def translates(tree: ast.AST) -> bool:
    """Whether ``_`` is read in a program, so that it is no place for what nobody wants."""
    return any(isinstance(n, ast.Name) and n.id == "_" and isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def unbound(text: str, names: set[str]) -> str:
    """The statement with ``_`` in place of some of the names that it unpacks into."""
    source = Source("", text)
    node = source.tree.body[0] if source.tree is not None else None
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
        return text
    spared = (n for n in node.targets[0].elts if isinstance(n, ast.Name) and n.id in names)
    return source.splice(Edit("", *source.span(n), "_") for n in spared)
