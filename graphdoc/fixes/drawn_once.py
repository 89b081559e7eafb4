"""Random numbers and batches that a statement takes for itself: taken once, under a name, where the rest runs again.

``w = mapper(torch.randn(4))`` → ``drawn = torch.randn(4)`` and ``w = mapper(drawn)``.
"""

from __future__ import annotations

import ast

from graphdoc.source.effects import another_each_time
from graphdoc.source.paths import last_word

_ALONE = frozenset(
    {"randn", "rand", "randint", "randperm", "randn_like", "rand_like", "randint_like"}
    | {"next", "pop", "popleft", "get_nowait", "readline", "read", "recv", "next_batch"}
)
"""Calls that give a value without a graph, whatever they are given."""
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
"""What evaluates a part of it later, several times or not at all."""


def drawn_once(text: str, name: str) -> tuple[str, str] | None:
    """The statement that reads ``name`` instead of taking something anew, and the expression that it took; None where
    it takes none, or more than can be told apart."""
    tree = ast.parse(text)
    found = [c for c in ast.walk(tree) if isinstance(c, ast.Call) and last_word(c.func) in _ALONE]
    if len(found) != 1 or any(found[0] in ast.walk(n) for n in ast.walk(tree) if isinstance(n, _LATER)):
        return None
    call = found[0]
    taken = ast.get_source_segment(text, call)
    if taken is None or "\n" in taken or call.end_lineno is None or call.end_col_offset is None:
        return None
    lines = text.encode().splitlines(keepends=True)
    line = lines[call.lineno - 1]
    lines[call.lineno - 1] = line[: call.col_offset] + name.encode() + line[call.end_col_offset :]
    again = b"".join(lines).decode()
    return None if another_each_time(ast.parse(again)) else (again, taken)
