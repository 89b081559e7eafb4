"""How a name came to hold a plain number where a tensor was meant: converted, or left as it began."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings

_METHODS = ("item", "tolist", "numpy")
_FUNCTIONS = ("float", "int")


@dataclass(frozen=True)
class Number:
    """What the source tells of a plain number: each place that takes it out of a tensor, each constant that it starts
    as. Where it is converted, the start is told only if nothing else is known; both empty: unknown."""

    converted: tuple[Frame, ...] = ()
    starts: tuple[Frame, ...] = ()
    direct: bool = False
    """Whether a statement that binds the name converts, and not a function that it calls."""


def plain_number(sources: SourceTexts, frame: Frame | None, name: str, kind: str) -> Number:
    """What the assignments to ``name`` that the code at ``frame`` can see tell of it; ``kind`` is the number's type."""
    told = bindings.assignments(sources, frame, name) if frame is not None and name else []
    converted = tuple(at for at, value in told if _converts(value))
    if converted:
        return Number(converted, direct=True)
    within = tuple(at for _, value in told for at in _converting_functions(sources, value))
    if within:
        return Number(within)
    return Number(starts=tuple(at for at, value in told if _is_number(value, kind)))


def _converts(node: ast.AST) -> bool:
    """Whether an expression takes numbers out of tensors by its own calls."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            method = isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
            if method or (isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS):
                return True
    return False


def _converting_functions(sources: SourceTexts, value: ast.expr) -> list[Frame]:
    """The ``return`` of each function of the sources that the expression calls by name, where that converts."""
    called = {bindings.text_of(n.func).rpartition(".")[2]: None for n in ast.walk(value) if isinstance(n, ast.Call)}
    return [
        bindings.frame_of(sources, file, given, node.name)
        for file in sources
        for node in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(node, ast.FunctionDef) and node.name in called
        for given in bindings.shallow(node)
        if isinstance(given, ast.Return) and given.value is not None and _converts(given.value)
    ]


def _is_number(value: ast.expr, kind: str) -> bool:
    number = value.value if isinstance(value, ast.Constant) else None
    return type(number).__name__ == kind
