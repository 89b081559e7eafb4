"""Optimizers that a program has and surely never steps: what only they hold is not trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Event, Optimizer, SourceTexts
from graphdoc.program.bindings import tree


def idle_optimizers(sources: SourceTexts, events: list[Event], optimizers: list[Optimizer]) -> frozenset[int]:
    """Ids of the optimizers that have not stepped, and that no ``step`` written in the program can mean.

    Known by the last two names of the path on which ``step`` is called (``agent.actor.optimizer``). Nothing is known
    where one is called on a bare name, or where the optimizers that did step are stepped by code that is not seen.
    """
    stepped = {e.optimizer for e in events if e.kind == "step"}
    written = {_end(path) for file in sources for path in _stepped_paths(tree(sources, file))}
    ends = {o.id: _end(o.name.split(".")) for o in optimizers}
    if not stepped or any(len(end) < 2 for end in written):
        return frozenset()
    if any(ends.get(o, ()) not in written for o in stepped):
        return frozenset()
    return frozenset(o for o, end in ends.items() if o not in stepped and len(end) == 2 and end not in written)


def _stepped_paths(root: ast.AST | None) -> Iterator[list[str]]:
    """What ``step`` is called on, and what it is given; not where its result is unpacked, as an environment's is."""
    unpacked = {
        id(n.value)
        for n in ast.walk(root or ast.Module([], []))
        if isinstance(n, ast.Assign) and any(isinstance(t, ast.Tuple) for t in n.targets)
    }
    for n in ast.walk(root or ast.Module([], [])):
        if not isinstance(n, ast.Call) or id(n) in unpacked:
            continue
        if isinstance(n.func, ast.Attribute) and n.func.attr == "step":
            yield _names(n.func.value)
            yield from (_names(a) for a in n.args)


def _names(node: ast.expr) -> list[str]:
    """``["agent", "actor", "optimizer"]``; of ``agents[0].optimizer`` the names alone. Empty for another expression."""
    out: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute | ast.Subscript):
        if isinstance(at, ast.Attribute):
            out.insert(0, at.attr)
        at = at.value
    return [at.id, *out] if isinstance(at, ast.Name) else []


def _end(path: list[str]) -> tuple[str, ...]:
    return tuple(name.partition("[")[0] for name in path[-2:])
