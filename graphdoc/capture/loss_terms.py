"""What a loss without a graph is a sum of: the cuts on which each of its terms hangs, by what made it."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoc.capture.cut_records import Record

MOST_TERMS = 32
DEEPEST = 150

_SUMS = {
    "add",
    "sub",
    "subtract",
    "radd",
    "rsub",
    "iadd",
    "isub",
    "add_",
    "sub_",
    "neg",
    "negative",
    "pos",
    "mean",
    "sum",
}
_SAME = {"view", "reshape", "squeeze", "unsqueeze", "flatten", "to", "float", "double", "cpu", "cuda", "clone", "stack"}
_PRODUCTS = {"mul", "multiply", "rmul", "imul", "mul_", "div", "divide", "truediv", "rtruediv", "itruediv", "div_"}

Term = frozenset[int]
"""The ids of the cuts that stand in one term."""


def terms_of(starts: Iterable[Record]) -> list[Term]:
    """The terms of a loss as far as sums and products tell; what any other operation has made is one term.

    ``-log_prob * (returns - value) - entropy`` hangs on the cuts of the log-probability and of the value together in
    its first term, and on that of the entropy alone in its second.
    """
    known: dict[int, list[Term]] = {}
    out = [t for start in starts for t in _terms(start, known, 0)]
    return list(dict.fromkeys(out))


def _terms(record: Record, known: dict[int, list[Term]], depth: int) -> list[Term]:
    if record.origins:
        return [frozenset((id(record),))]
    if id(record) not in known:
        parts = [_terms(r, known, depth + 1) for r in record.inputs] if depth < DEEPEST else []
        known[id(record)] = _joined(record.op.strip("_") if record.op.startswith("__") else record.op, parts)
    return known[id(record)]


def _joined(op: str, parts: list[list[Term]]) -> list[Term]:
    if op in _SUMS | _SAME:
        found = [t for part in parts for t in part]
    elif op in _PRODUCTS:
        found = [frozenset()]
        for part in parts:
            found = [a | b for a in found for b in part] if part else found
    else:
        found = [frozenset().union(*(t for part in parts for t in part))]
    distinct = list(dict.fromkeys(t for t in found if t))
    return distinct if len(distinct) <= MOST_TERMS else [frozenset().union(*distinct)]
