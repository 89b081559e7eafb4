"""Numbers that leave a graph in its middle and go on in the same graph: a loss reaches what they were computed from in
another way too, so that every parameter has a gradient, and a part of it is missing.

Weights, baselines and targets are such numbers by right. They stand at the top of a loss, where no parameter is used
any more; a number that goes into a layer stands for what was computed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

from graphdoc.capture.events.cut_records import DRAWS, Record, records_behind
from graphdoc.capture.graph.summands import is_number
from graphdoc.capture.graph.walk import DEEP, VIEWS, nodes_behind, reached
from graphdoc.capture.second_run.cut_recorder import CONVERSIONS, REMADE

_NUMBERS = CONVERSIONS - {"__int__", "__bool__", "__index__"}
_DRAWS = DRAWS | {"randn", "rand", "randn_like", "rand_like", "normal_", "uniform_"}
_OVER_ALL = ("Mean", "Sum", "Max", "Min", "Amax", "Amin", "Std", "Var", "Norm", "Linalg", "Dot", "Median", "Prod")
"""Beginnings of the names of nodes that make one number of many: what is divided by it is normalised."""
_BY_TWO = ("Maximum", "Minimum")
_BY_ELEMENT = ("Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Exp", "Sqrt", "Clamp", "Softplus", "Tanh", "Abs", "Pow")
NEAR, MOST_NEAR = 4, 60
"""Operations in front of a conversion that are looked at."""
MOST_LEFT, MOST_ENTERED, MOST_FOLLOWED = 2_000, 1_000, 200

Entered = list[tuple[int, Record]]


class Left:
    """One conversion: ``given`` are the sequence numbers of what was converted, ``near`` those of what it was computed
    by, element by element, directly before; ``reduced`` where all of it says something of many numbers at once."""

    def __init__(self, record: Record, nodes: list[Any]) -> None:
        self.record = record
        self.given = {int(n._sequence_nr()) for n in nodes}
        self.near: set[int] = set()
        self.reduced = len([n for n in nodes if self._look(n)]) == len(nodes)

    def _look(self, root: Any) -> bool:
        row, over_all = [root], False
        for _ in range(NEAR):
            following: list[Any] = []
            for node in row[:MOST_NEAR]:
                self.near.add(int(node._sequence_nr()))
                name = type(node).__name__
                over_all |= name.startswith(_OVER_ALL) and not name.startswith(_BY_TWO) and is_number(root)
                if name.startswith(_BY_ELEMENT) or name in VIEWS:
                    following += [n for n, _ in node.next_functions if n is not None]
            row = following
        return over_all


class Reentries:
    """The conversions of one run, as they are made."""

    def __init__(self) -> None:
        self._left: OrderedDict[int, Left] = OrderedDict()
        self._taking: dict[int, bool] = {}
        """Sequence numbers of the results of operations that take a leaf, and whether one that multiplies."""

    def note(self, name: str, record: Record | None, nodes: list[Any]) -> None:
        """What these nodes gave was converted."""
        if record is not None and nodes and record.recording and name in REMADE | _NUMBERS:
            self._left[id(record)] = Left(record, nodes)
            if len(self._left) > MOST_LEFT:
                self._left.popitem(last=False)

    def took(self, given: Iterable[Any], result: Any) -> None:
        """An operation has made a result with a graph."""
        leaves = [v for v in given if v.requires_grad and v.grad_fn is None]
        if leaves:
            self._taking[int(result.grad_fn._sequence_nr())] = any(v.dim() > 1 for v in leaves)

    def into(
        self,
        roots: Iterable[Any],
        entered: Iterable[tuple[int, Record, Any]],
        held: Collection[int],
        taken_up: Collection[int],
        since: int,
    ) -> list[tuple[Record, frozenset[int]]]:
        """Conversions whose numbers go where parameters are used in the graph with these roots, with the leaves behind
        them that are ``held`` and lie in this graph too. Not those from before the backward call with the index
        ``since``, that were asked for by name of a tensor that has gone on as well (``taken_up``), that were drawn, or
        that are the norm or the mean of a whole."""
        graph = dict(islice(nodes_behind(roots), DEEP)) if self._left else {}
        if not graph or len(graph) >= DEEP:
            return []
        leaves = {id(v) for node in graph if (v := getattr(node, "variable", None)) is not None} & {*held}
        numbers = {int(node._sequence_nr()): node for node, following in graph.items() if following}
        every = [(n, r) for n, r, _ in entered]
        at = [(n, r) for n, r in every if n in numbers][-MOST_ENTERED:]
        below: set[Any] | None = None
        found: dict[int, tuple[Record, frozenset[int]]] = {}
        for number, entering in reversed(at):
            for r in records_behind([entering], MOST_FOLLOWED):
                left, behind = self._left.get(id(r)), r.behind & leaves
                if left is None or id(r) in found or not behind or left.reduced or r.event <= since:
                    continue
                if r.op not in REMADE and not left.given.isdisjoint(taken_up):
                    continue
                if below is None:
                    layers = [n for i, n in numbers.items() if self._taking.get(i)]
                    below = set(reached(layers, lambda n: [m for m, _ in graph[n] if m is not None]))
                if numbers[number] in below or number in self._taking:
                    found[id(r)] = r, frozenset(behind)
        return [f for i, f in found.items() if not self._was_drawn(self._left[i], every, since)]

    @staticmethod
    def _was_drawn(left: Left, every: Entered, since: int) -> bool:
        """Whether numbers were drawn in this pass and added to what was converted: it is a sample."""
        given = [r for n, r in every if n in left.near]
        return any(r.op in _DRAWS and r.event > since for r in records_behind(given, MOST_FOLLOWED))
