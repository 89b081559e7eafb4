"""What is unfrozen behind an optimizer that was made of what required gradients then."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.freezing import switches
from graphdoc.program.optimizer_places import made


def unfrozen_behind(sources: SourceTexts, optimizer: str, parameters: list[str]) -> tuple[Frame, Frame] | None:
    """Where the optimizer of this name was given only what required gradients, and where parameters that had been
    frozen are unfrozen below it, in the same function; None where that is not how the source reads."""
    making = made(sources, optimizer)
    root = bindings.tree(sources, making.file) if making is not None else None
    if making is None or root is None or not _asks_for_the_flag(making.statement.value):
        return None
    statements = [n for n in ast.walk(root) if isinstance(n, ast.stmt)]
    if not any(switches(n) is False for n in statements if n.lineno < making.statement.lineno):
        return None
    scope = bindings.function_around(root, making.statement.lineno) or root
    late = [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.stmt) and n.lineno > making.statement.lineno and switches(n) is True
    ]
    found = next((n for n in late if _is_of_parameters(scope, n, parameters)), None)
    if found is None:
        return None
    at = bindings.frame_of(sources, making.file, making.statement)
    return at, bindings.frame_of(sources, making.file, found)


def _asks_for_the_flag(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "requires_grad" for n in ast.walk(node))


def _is_of_parameters(scope: ast.AST, node: ast.stmt, parameters: list[str]) -> bool:
    """Whether a loop over ``parameters()`` switches each of them on, or a call a whole module."""
    switched = node.targets[0] if isinstance(node, ast.Assign) else getattr(getattr(node, "value", None), "func", None)
    if not isinstance(switched, ast.Attribute):
        return False
    whose = bindings.text_of(switched.value)
    if any(name.startswith(whose + ".") for name in parameters):
        return True
    return any(
        isinstance(n, ast.For) and node in n.body and whose in bindings.names_in(n.target) and _lists_parameters(n.iter)
        for n in ast.walk(scope)
    )


def _lists_parameters(node: ast.expr) -> bool:
    called = [n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    return "parameters" in called or "named_parameters" in called
