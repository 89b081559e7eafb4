"""Random numbers and batches that a statement takes for itself: taken once, under a name, where the rest runs again.

``w = mapper(torch.randn(4))`` → ``drawn = torch.randn(4)`` and ``w = mapper(drawn)``.
"""

from __future__ import annotations

import ast

from graphdoc.source.effects import DRAWS, TAKES, calls_of
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word

_ALONE = (TAKES - {"popitem"}) | {
    *("randn", "rand", "randint", "randperm", "randn_like", "rand_like", "randint_like"),
}
"""Calls that give a value without a graph, whatever they are given."""
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
"""What evaluates a part of it later, several times or not at all."""


def taking_calls(node: ast.AST) -> list[ast.Call]:
    """The calls that take something and can be made once, beforehand."""
    return [c for c in calls_of(node) if last_word(c.func) in _ALONE]


def runs_later(source: Source, call: ast.Call) -> bool:
    """Whether a call is made later than the statement around it, several times or not at all."""
    return any(isinstance(n, _LATER) for n in source.node_ancestors(call))


def drawn_once(source: Source, statement: ast.stmt) -> ast.Call | None:
    """The one call by which a statement takes something; None where it takes none, or more than can be told apart."""
    found = taking_calls(statement)
    if len(found) != 1 or runs_later(source, found[0]):
        return None
    inside = set(ast.walk(found[0]))
    others = (c for c in calls_of(statement) if c not in inside)
    return None if any(last_word(c.func) in DRAWS | TAKES for c in others) else found[0]
