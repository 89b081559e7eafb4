"""A statement that runs again and binds a part of its names only: ``memory, h = enc(x)`` → ``memory, _ = enc(x)``."""

from __future__ import annotations

import ast


def translates(tree: ast.AST) -> bool:
    """Whether ``_`` is read in a program, so that it is no place for what nobody wants."""
    return any(isinstance(n, ast.Name) and n.id == "_" and isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def unbound(text: str, names: set[str]) -> str:
    """The statement with ``_`` in place of some of the names that it unpacks into."""
    node = ast.parse(text).body[0]
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
        return text
    lines = text.encode().splitlines(keepends=True)
    for name in reversed(node.targets[0].elts):
        if isinstance(name, ast.Name) and name.id in names:
            line = lines[name.lineno - 1]
            lines[name.lineno - 1] = line[: name.col_offset] + b"_" + line[name.end_col_offset :]
    return b"".join(lines).decode()
