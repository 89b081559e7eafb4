"""Whether a value is all that a term of the failing loss is made of: taken as a constant, the term trains nothing."""

from __future__ import annotations

from graphdoc.evidence import Folded, Frame
from graphdoc.program.graph_ways import above

_ADDING = frozenset({"AddBackward0", "SubBackward0", "RsubBackward0"})
_OF_ONE = frozenset({"NegBackward0", "MeanBackward0", "SumBackward0", "MulBackward0", "DivBackward0"})
"""They add nothing of another value where they take one alone: ``0.5 * loss``."""


def is_whole_term(folded: Folded | None, line: Frame) -> bool:
    """Whether what the failing loss takes up at this line comes from one value alone, which another line has made, and
    is but scaled and added up on its way to the loss. False where the graph is folded too much to tell."""
    if folded is None or folded.root < 0:
        return False
    here = {n for n, p in enumerate(folded.parts) if any(f.start[:2] == line.start[:2] for f in p.stack)}
    taken = {to for start, to, _ in folded.edges if start in here} - here
    if not here or folded.root in here or len(taken) != 1 or any(folded.parts[n].parameters for n in taken):
        return False
    return all(_adds_up(folded, n) for n in above(folded, here))


def _adds_up(folded: Folded, number: int) -> bool:
    """Whether a part takes as many values as its sums have terms: then no product of it has two of them."""
    part = folded.parts[number]
    taken = sum(count for start, to, count in folded.edges if start == number != to)
    sums = sum(count for op, count in part.ops.items() if op in _ADDING)
    return not part.lines and set(part.ops) <= _ADDING | _OF_ONE and taken <= sums + 1
