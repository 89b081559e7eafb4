"""Numbers that leave a graph in its middle and go on in the same graph: a loss reaches what they were computed from in
another way too, so that every parameter has a gradient, and a part of it is missing.

Weights, baselines and targets are such numbers by right. They stand at the top of a loss, where no parameter is used
any more; a number that goes into a layer stands for what was computed. Who asks for a number by name (``item()``) wants
one, unless a function that makes a tensor can be given nothing else. What a network is fed with of its own results, in
a roll-out say, is data to it, unless these are states: each is computed from the one before, and the loss from both.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from itertools import islice, pairwise
from typing import Any

from graphdoc.capture.events.cut_records import DRAWS, Record, records_behind
from graphdoc.capture.graph.summands import Part, element_terms, is_number
from graphdoc.capture.graph.walk import DEEP, VIEWS, inputs_of, nodes_behind, reached, users_of
from graphdoc.capture.places.frames import made_at
from graphdoc.capture.second_run.cut_recorder import REMADE

BY_NAME = {"item", "__float__"}
"""What asks for a number."""
_DRAWS = DRAWS | {"randn", "rand", "randn_like", "rand_like", "normal_", "uniform_"}
_PICKING = ("Select", "Slice", "Index", "Gather", "Unbind", "Split")
"""Beginnings of the names of nodes that give one number of many as it is."""
_BY_ELEMENT = ("Add", "Sub", "Rsub", "Mul", "Div", "Neg", "Exp", "Sqrt", "Clamp", "Softplus", "Tanh", "Abs", "Pow")
NEAR, MOST_NEAR = 4, 60
"""Operations in front of a conversion that are looked at."""
MOST_LEFT, MOST_ENTERED, MOST_FOLLOWED, MOST_BEHIND, MOST_TERMS = 2_000, 1_000, 200, 500, 64

Entered = list[tuple[int, Record]]
Marks = Mapping[int, frozenset[Any]]
"""By the sequence number of what takes a leaf: its place, and the ids of the leaves that are more than a vector."""


def _number(node: Any) -> int:
    return int(node._sequence_nr())


class Left:
    """One conversion, in sequence numbers: ``given`` was converted, which is ``scaled`` from one value each; it was
    computed directly before from ``near``. ``marks``: those of the layers behind it; ``reduced`` where all of it says
    something of many numbers at once, as a norm or a mean does: what is divided by that is normalised."""

    def __init__(self, record: Record, nodes: list[Any], marks: Marks) -> None:
        self.record = record
        self.near: set[int] = set()
        self.reduced = not [n for n in nodes if not self._look(n, marks)]
        self.given = {_number(n) for n in nodes}
        self.scaled = {_number(n) for n in reached(nodes, lambda n: [] if _number(n) in marks else _alone(n))}
        behind = reached(nodes, inputs_of, MOST_BEHIND)
        self.marks = frozenset[Any]().union(*(marks.get(_number(n), ()) for n in behind))

    def _look(self, root: Any, marks: Marks) -> bool:
        row, elements, over_all = [root], {root}, False
        for _ in range(NEAR):
            following: list[Any] = []
            for node in (n for n in row[:MOST_NEAR] if _number(n) not in marks):
                self.near.add(_number(node))
                name, further = type(node).__name__, inputs_of(node)
                if node in elements:
                    over_all |= is_number(node) and not (name.startswith(_PICKING) or all(map(is_number, further)))
                    elements.update(further if name.startswith(_BY_ELEMENT) or name in VIEWS else ())
                following += further
            row = following
        return over_all


def _alone(node: Any) -> list[Any]:
    """What a node takes, where that is one value."""
    return below if len(below := inputs_of(node)) == 1 else []


class Reentries:
    """The conversions of one run, as they are made."""

    def __init__(self) -> None:
        self._left: OrderedDict[Record, Left] = OrderedDict()
        self._marks: dict[int, frozenset[Any]] = {}

    def note(self, record: Record | None, nodes: list[Any]) -> None:
        """What these nodes gave was converted."""
        if record is not None and nodes and record.recording:
            self._left[record] = Left(record, nodes, self._marks)
            if len(self._left) > MOST_LEFT:
                self._left.popitem(last=False)

    def took(self, given: Iterable[Any], result: Any) -> None:
        """An operation has made a result with a graph."""
        leaves = [v for v in given if v.requires_grad and v.grad_fn is None]
        if leaves:
            matrices = (id(v) for v in leaves if v.dim() > 1)
            self._marks[_number(result.grad_fn)] = frozenset((made_at(result.grad_fn), *matrices))

    def into(self, roots: list[Any], held: Collection[int], watch: Any) -> list[tuple[Record, frozenset[int]]]:
        """Conversions whose numbers go where parameters are used in the graph with these roots, with the leaves behind
        them that are ``held`` and lie in this graph too. Not those from before the latest backward call, that were
        asked for by name of a tensor that has gone on as well, that were drawn, or that are the norm or the mean of a
        whole. ``watch`` has recorded the run."""
        graph = dict(islice(nodes_behind(roots), DEEP)) if self._left else {}
        if not graph or len(graph) >= DEEP:
            return []
        leaves = {id(v) for node in graph if (v := getattr(node, "variable", None)) is not None}.intersection(held)
        numbers = {_number(node): node for node, following in graph.items() if following}
        every, since = [(n, r) for n, r, _ in watch.entered_values.latest], watch.since
        above = users_of(graph)
        parts = list[Part]()
        found: dict[int, tuple[Left, frozenset[int]]] = {}
        fed: dict[Any, dict[int, Left]] = {}
        """By place: those that go into what they come from."""
        for number, entering in reversed([(n, r) for n, r in every if n in numbers][-MOST_ENTERED:]):
            chain = records_behind([entering], MOST_FOLLOWED)
            late = [(r, left) for r in chain if r.event > since and (left := self._left.get(r)) is not None]
            some = [(r, left) for r, left in late if not left.reduced and r.behind & leaves]
            if not some:
                continue
            parts = parts or [Part(t) for t in element_terms(roots)[:MOST_TERMS]]
            layers = self._layers(numbers[number], above)
            for r, left in some:
                by_name = r.op in BY_NAME
                if any(not left.marks.isdisjoint(marks) for marks in layers):
                    fed.setdefault(r.place, {})[id(r)] = left
                needed = not by_name or any(f.op in REMADE and r in f.inputs for f in chain)
                missed = (r.behind & leaves).difference(*(p.leaves for p in parts if number in p.nodes))
                if missed and any(missed <= p.leaves for p in parts):
                    continue  # what another term trains is a number in this one by right
                if layers and needed and not (by_name and left.given & watch.taken_up):
                    found[id(r)] = left, r.behind & leaves
        states = {
            place
            for place, alike in fed.items()
            if place[0] not in BY_NAME
            and not any(f.scaled.isdisjoint(numbers) for f in alike.values())
            and any(one.near & another.near for one, another in pairwise(alike.values()))
        }
        data = fed.keys() - states
        told = [(left, behind) for left, behind in found.values() if left.record.place not in data]
        return [(left.record, behind) for left, behind in told if not self._was_drawn(left, every, since)]

    def _layers(self, entry: Any, above: Mapping[Any, list[Any]]) -> list[frozenset[Any]]:
        """The marks of the layers that a value goes into which enters the graph here: the first that have a matrix."""

        def further(node: Any) -> list[Any]:
            return above.get(node, []) if len(self._marks.get(_number(node), ())) < 2 else []

        climbed = ((n is entry, self._marks.get(_number(n), frozenset())) for n in reached([entry], further))
        return [marks for first, marks in climbed if len(marks) > (not first)]

    @staticmethod
    def _was_drawn(left: Left, every: Entered, since: int) -> bool:
        """Whether numbers were drawn in this pass and added to what was converted: it is a sample."""
        given = [r for n, r in every if n in left.near]
        return any(r.op in _DRAWS and r.event > since for r in records_behind(given, MOST_FOLLOWED))
