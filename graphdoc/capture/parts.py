"""Terms of one loss, each with its own graph: what one of them reaches, and which random draws went into another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from graphdoc.capture.cut_records import Record, records_behind
from graphdoc.capture.cuts import is_draw
from graphdoc.capture.summands import factor_of, terms_of
from graphdoc.capture.walk import DEEP, nodes_behind

MOST = 12
"""Terms of one loss that are looked at one by one."""
MOST_NODES = DEEP - 1
MOST_FOLLOWED = 2_000

Entered = list[tuple[int, Record]]
"""The sequence number of a node that has taken a value without a graph, and the value's record."""


class Part:
    """One term: its nodes by sequence number, and the ids of the leaves that it reaches."""

    def __init__(self, term: Any) -> None:
        self.nodes: dict[int, Any] = {}
        self.leaves: set[int] = set()
        self.whole = True
        for count, (node, following) in enumerate(nodes_behind([term])):
            leaf = getattr(node, "variable", None) if not following else None
            if leaf is not None:
                self.leaves.add(id(leaf))
            else:
                self.nodes[int(node._sequence_nr())] = node
            if count >= MOST_NODES:
                self.whole = False
                return

    def drawn(self, entered: Entered) -> list[Record]:
        """The draws, from what has a graph, that have gone into it as numbers."""
        mine = [r for n, r in entered if n in self.nodes]
        return [r for r in records_behind(mine, MOST_FOLLOWED) if r.origins and is_draw(r)]

    def weights(self, draw: Record, entered: Entered) -> list[float | None]:
        """What its products have as their constant sides, where the draw has gone into it: a log-probability of that
        is worth so much. None for one number for each element."""
        if not any(r is draw for r in self.drawn(entered)):
            return []
        return constants(self.nodes.values())


def constants(nodes: Iterable[Any]) -> list[float | None]:
    """The constant sides of products; None for one that is more than a number."""
    products = [n for n in nodes if type(n).__name__ == "MulBackward0" and None in [m for m, _ in n.next_functions]]
    return [factor_of(n) for n in products]


def parts_of(roots: list[Any]) -> list[Part]:
    """The terms of a loss that are more than one, and of which each has few enough nodes."""
    terms = terms_of(roots, rows=True)
    parts = [Part(t) for t in terms] if 1 < len(terms) <= MOST else []
    return parts if all(p.whole for p in parts) else []


def missed_by(part: Part, parts: list[Part], held: Collection[int]) -> set[int]:
    """The leaves that an optimizer holds and that other terms of the loss reach, and this one does not."""
    return {i for p in parts for i in p.leaves if i in held} - part.leaves
