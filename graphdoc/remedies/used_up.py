"""A generator of parameters that a first loop uses up, so that a second one has nothing to run over."""

from __future__ import annotations

import ast

from graphdoc.evidence import SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.one_shot import ITERATORS
from graphdoc.program.spans import place, where


def used_up(sources: SourceTexts) -> tuple[Remedy, ...]:
    """Make a list of each such generator."""
    found = []
    for file in sources:
        root = bindings.tree(sources, file) or ast.Module([], [])
        scopes = [root, *(n for n in ast.walk(root) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))]
        for scope in scopes:
            found += [bindings.frame_of(sources, file, value) for value in _generators(scope)]
    return tuple(
        Remedy(
            "wrap_in_list",
            f"make a list of the parameters at {where(frame)}: the first loop uses the generator up",
            "unsafe",
            "The second loop then runs over the parameters too.",
            {"place": place(frame)},
        )
        for frame in found
    )


def _generators(scope: ast.AST) -> list[ast.Call]:
    """The calls whose result has a name that two loops of this scope run over, bound once."""
    inside = list(bindings.shallow(scope))
    loops = [n.iter.id for n in inside if isinstance(n, ast.For) and isinstance(n.iter, ast.Name)]
    bound: dict[str, list[ast.expr]] = {}
    for node in inside:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            bound.setdefault(node.targets[0].id, []).append(node.value)
    return [
        values[0]
        for name, values in bound.items()
        if len(values) == 1 and loops.count(name) > 1
        if isinstance(values[0], ast.Call) and bindings.dotted(values[0].func).rpartition(".")[2] in ITERATORS
    ]
