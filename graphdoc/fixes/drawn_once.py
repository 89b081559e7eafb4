"""Random numbers and batches that a statement takes for itself: taken once, under a name, where the rest runs again.

``w = mapper(torch.randn(4))`` → ``drawn = torch.randn(4)`` and ``w = mapper(drawn)``.
"""

from __future__ import annotations

import ast

from graphdoc.source.effects import TAKES, another_each_time, calls_of
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Edit

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


def drawn_once(text: str, name: str) -> tuple[str, str] | None:
    """The statement that reads ``name`` instead of taking something anew, and the expression that it took; None where
    it takes none, or more than can be told apart."""
    source = Source("", text)
    found = taking_calls(source.tree) if source.tree is not None else []
    if len(found) != 1 or runs_later(source, found[0]):
        return None
    taken = source.segment(found[0])
    again = source.splice([Edit("", *source.span(found[0]), name)])
    return None if "\n" in taken or another_each_time(ast.parse(again)) else (again, taken)
