"""Walking a graph after a failure: every node once, without recursion, with what it saved and in what state that is."""

from __future__ import annotations

import ctypes
import re
import sys
from array import array
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import cache, cached_property
from heapq import heappop, heappush, heappushpop
from itertools import compress
from typing import Any, TypeVar

from graphdoc.capture.tensors import saved
from graphdoc.capture.tensors.facts import storage_of
from graphdoc.capture.tensors.saved import SHOWS, contents

T = TypeVar("T")

_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_RELEASED = ("a second time", "already been freed", "after they have already")
"""What every PyTorch says of a saved tensor that a backward call has released."""
VIEWS = {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AliasBackward0", "TBackward0"}
VIEWS |= {"PermuteBackward0", "TransposeBackward0", "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"}
VIEWS |= {"SliceBackward0", "SelectBackward0", "ExpandBackward0"}
"""Nodes of operations that copy nothing."""


_operations: dict[type, str] = {}


def op_of(node: Any) -> str:
    """The name of a node's operation, asked once for a type that is named after it; ``CppFunction`` stands for many."""
    cls = type(node)
    known = _operations.get(cls)
    if known is None:
        known = sys.intern(str(node.name()))
        if known == cls.__name__:
            _operations[cls] = known
    return known


class Graph:
    """The nodes of a walk, in the order met: what is known of each stands in arrays, by its number. As a sequence it
    gives a ``Found`` for each.

    Its edges stand in the order in which the walk came to them, those out of one node together.
    """

    __slots__ = (
        *("_begins", "_ends", "by_time", "leaves", "newest_first", "nodes", "released", "roots", "sequences"),
        *("sources", "stale", "targets"),
    )

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.roots: list[int] = []
        self.sequences = array("q")
        self.newest_first = array("i")
        """The numbers of all nodes as the engine would come to them."""
        self.sources = array("i")
        """Where each edge comes from."""
        self.targets = array("i")
        """Where each edge leads."""
        self._begins, self._ends = array("i"), array("i")
        self.by_time = True
        """Whether every edge leads to an older node, which those between nodes of several threads may not do."""
        self.leaves: dict[int, Any] = {}
        """The tensor of each node that is a leaf."""
        self.released = bytearray()
        self.stale: dict[int, list[tuple[str, int, int]]] = {}
        """(attribute, expected version, current version) of the stale tensors of a node."""

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, number: int) -> Found:
        return Found(self, number if number >= 0 else len(self.nodes) + number)

    def __iter__(self) -> Iterator[Found]:
        return (Found(self, number) for number in range(len(self.nodes)))

    def op(self, number: int) -> str:
        return op_of(self.nodes[number])

    def released_ones(self) -> Iterator[int]:
        """The numbers of the nodes that are released."""
        return compress(range(len(self.nodes)), self.released)

    def following(self, number: int) -> array[int]:
        """The numbers of the nodes that one leads to."""
        return self.targets[self._begins[number] : self._ends[number]]

    def numbers_of(self, nodes: Iterable[Any]) -> dict[Any, int]:
        """The numbers of those of these nodes that are in the graph."""
        wanted = set(nodes)
        return {node: number for number, node in enumerate(self.nodes) if node in wanted}


class Found:
    """One node of the walk."""

    __slots__ = ("_graph", "number")

    def __init__(self, graph: Graph, number: int) -> None:
        self._graph = graph
        self.number = number

    node: Any = property(lambda self: self._graph.nodes[self.number])
    sequence: Any = property(lambda self: self._graph.sequences[self.number])
    following: Any = property(lambda self: self._graph.following(self.number))
    leaf: Any = property(lambda self: self._graph.leaves.get(self.number))
    released: Any = property(lambda self: bool(self._graph.released[self.number]))
    stale: Any = property(lambda self: self._graph.stale.get(self.number, []))
    op: Any = property(lambda self: self._graph.op(self.number))


NO_SEQUENCE = 1 << 62
"""AccumulateGrad and its like carry the largest unsigned number instead of a place in the order."""

DEEP = 10_000
"""Graphs with more nodes than this are never freed once they have been walked."""
MOST_NODES = 2_000_000
"""Nodes of one graph that are walked."""
MOST_ASKED = 5_000
"""Released nodes that are looked at one by one."""
MOST_RAISED = 500
"""Released nodes that are asked for what they have saved: each answers with an exception, which takes longest."""

_BITS = 24
"""Bits for the number of a node in a key, below those of its sequence number: more than ``MOST_NODES`` needs."""
_NUMBER = (1 << _BITS) - 1
_ROOM = array("i", [0]).tobytes() * 256
"""What the arrays of rows grow by: an append for each node takes longer."""


def _attributes(cls: type) -> tuple[str, ...]:
    every = dir(cls)
    return tuple(a for a in every if a.startswith("_saved_") and "_raw" + a in every)


attributes: Callable[[Any], tuple[str, ...]] = cache(_attributes)
"""Names of the saved tensors of a node type (``_saved_self`` …), read once per type."""


def saved_in(node: Any, memory: Container[int | None]) -> list[str]:
    """The attributes in which a node has saved tensors with this memory (storages by ``facts.storage_of``)."""
    out: list[str] = []
    for name in attributes(type(node)):
        try:
            raw = getattr(node, "_raw" + name)
            if raw is None or saved.may_be_hooked(raw):
                continue
            out += [name for tensor in contents(node, name) if storage_of(tensor) in memory]
        except RuntimeError:
            break  # released
    return out


def nodes_behind(roots: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Every node reachable from ``roots`` with its ``next_functions``, each once, in no particular order.

    For a look while the program runs. No more than ``DEEP`` may be taken: freeing so many could overflow the C stack.
    """
    todo = [root for root in roots if root is not None]
    seen: set[Any] = set(todo)
    while todo:
        node = todo.pop()
        following = node.next_functions
        yield node, following
        for n, _ in following:
            if n is not None and n not in seen:
                seen.add(n)
                todo.append(n)


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]], most: int = MOST_NODES) -> Iterator[T]:
    """These, and all that they lead to by ``following``, each once, the nearest first. Once so many are known none is
    followed any more."""
    found = list(starts)
    seen = set(found)
    for one in found:
        yield one
        for n in following(one) if len(found) < most else ():
            if n not in seen:
                seen.add(n)
                found.append(n)


def output_shape(node: Any) -> tuple[int, ...] | None:
    """The shape of what an operation gave, of the first output; None where the node does not tell."""
    try:
        return tuple(int(size) for size in node._input_metadata[0].shape)
    except Exception:
        return None


def inputs_of(node: Any) -> list[Any]:
    """The nodes of what an operation took, as far as it has a graph."""
    return [n for n, _ in node.next_functions if n is not None]


def users_of(nodes: Iterable[T], taken: Callable[[T], Iterable[T]] = inputs_of) -> dict[T, list[T]]:
    """Those of these that take a node's output, by the node; none for what nobody takes."""
    found: dict[T, list[T]] = {}
    for node in nodes:
        for n in taken(node):
            found.setdefault(n, []).append(node)
    return found


def walk(roots: Iterable[Any], limit: int = MOST_NODES) -> Graph:
    """Every node reachable from ``roots``, in the engine's own order: of a part, what it had run before it failed is in
    it.

    Args:
        roots: graph nodes (``tensor.grad_fn``).
        limit: stop after this many nodes; less than ``DEEP``, while the program may go on.
    """
    graph = Graph()
    nodes, sequences, leaves = graph.nodes, graph.sequences, graph.leaves
    sources, targets = graph.sources, graph.targets
    begins, ends, newest_first = graph._begins, graph._ends, graph.newest_first
    numbers: dict[Any, int] = {}
    """Of those that an edge may still lead to: only older ones than where it comes from, as long as all edges do so."""
    passed = NO_SEQUENCE + 1
    heap: list[int] = []
    count = room = 0
    number = -1
    following: Iterable[tuple[Any, int]] = [(root, 0) for root in roots]
    while True:
        new = None
        begin = len(targets)
        for node, _ in following:
            if node is None:
                continue
            met = numbers.setdefault(node, count)
            if met == count:
                sequence, leaf = node._sequence_nr(), None
                if sequence > NO_SEQUENCE:
                    # The engine runs it at once, and it leads to nothing.
                    sequence, leaf = NO_SEQUENCE, getattr(node, "variable", None)
                if sequence >= passed and leaf is None:
                    graph.by_time, passed = False, NO_SEQUENCE + 1
                    numbers = dict(zip(nodes, range(count), strict=True))
                    met = numbers.setdefault(node, count)
            if met == count:
                count += 1
                if count > room:
                    begins.frombytes(_ROOM)
                    ends.frombytes(_ROOM)
                    room = len(ends)
                nodes.append(node)
                sequences.append(sequence)
                if leaf is not None:
                    leaves[met] = leaf
                    newest_first.append(met)
                else:
                    if new is not None:
                        heappush(heap, new)
                    new = met - (sequence << _BITS)
            sources.append(number)
            targets.append(met)
        if number < 0:
            graph.roots = targets.tolist()
            del sources[:], targets[:]
        else:
            begins[number], ends[number] = begin, len(targets)
        if count >= limit or (new is None and not heap):
            break
        # Most nodes lead to one new one, which is the next.
        number = (heappop(heap) if new is None else heappushpop(heap, new)) & _NUMBER
        newest_first.append(number)
        node = nodes[number]
        if graph.by_time:
            passed = sequences[number]
            del numbers[node]
        following = node.next_functions
    heap += [] if new is None else [new]
    newest_first.extend(map(_NUMBER.__and__, sorted(heap)))
    del begins[count:], ends[count:]
    graph.released = bytearray(count)
    _keep_for_good(nodes if limit > DEEP else [])
    return graph


def _keep_for_good(nodes: list[Any]) -> None:
    """Never free these nodes, not even when Python ends, if there are more than ``DEEP``.

    From PyTorch 2.13 on a node that Python has looked at is freed through Python, each inside the one that leads to it.
    A chain of some ten thousand overflows the C stack: the program would end in a segmentation fault.
    """
    if len(nodes) > DEEP:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(nodes))


def examine_all(order: Graph, limit: int = NO_SEQUENCE) -> int:
    """Examine every node up to the sequence number ``limit``, and return how many released ones were only inferred.

    Asking a released node costs an exception. After ``MOST_RAISED`` of them a node below a released one that holds
    nothing any more is released if others of its type were. After ``MOST_ASKED`` the nodes below a released one are
    taken for released too, if they are of a type that saves tensors: the call that released it went on to them.
    """
    asked = inferred = 0
    below = bytearray(len(order))
    known: set[type] = set()
    nodes, sequences, released = order.nodes, order.sequences, order.released
    targets, begins, ends = order.targets, order._begins, order._ends
    for number in order.newest_first:
        if sequences[number] > limit:
            continue
        node = nodes[number]
        cls = type(node)
        names = attributes(cls)
        deep = below[number] and asked >= MOST_RAISED
        if deep and asked >= MOST_ASKED:
            if names:
                released[number] = 1
                inferred += 1
        elif deep and cls in known and _is_empty(node, names):
            released[number] = 1
            asked += 1
        elif names or hasattr(cls, "saved_tensors"):
            examine(order, number)
            if released[number]:
                asked += 1
                known.add(cls)
        if released[number] or below[number]:
            for m in targets[begins[number] : ends[number]]:
                below[m] = 1
    return inferred


def _is_empty(node: Any, names: tuple[str, ...]) -> bool:
    """Whether a node of a type that saves tensors has none and no hooks, as far as saved tensors can be looked into."""
    try:
        each = [getattr(node, f"_raw{name}") for name in names] if SHOWS else ()
    except RuntimeError:
        return False
    return bool(each) and all(
        getattr(raw, "data", node) is None and getattr(raw, "unpack_hook", node) is None for raw in each
    )


def examine(order: Graph, number: int) -> None:
    """Fill in whether the node's saved tensors were released or written to since.

    Reading ``_saved_x`` raises the very errors that backward raises, without side effects. A tensor packed by saved
    tensor hooks is left alone (see ``graphdoc.capture.tensors.saved``); what is released has lost its hooks.
    """
    node = order.nodes[number]
    cls = type(node)
    names = attributes(cls)
    if names:
        for name in names:
            try:
                raw = getattr(node, "_raw" + name)
                if raw is not None and not saved.may_be_hooked(raw):
                    getattr(node, name)
            except RuntimeError as e:
                _note(order, number, name, str(e))
                if order.released[number]:
                    break
    elif hasattr(cls, "saved_tensors"):
        try:
            # Released ones are told by the raw attribute already; what reading the other one does, its Function says.
            hooked = saved.may_be_hooked(getattr(node, "_raw_saved_tensors", None))
            if not hooked and not saved.forgets(cls):
                node.saved_tensors  # noqa: B018
        except RuntimeError as e:
            _note(order, number, "saved_tensors", str(e))


def _note(order: Graph, number: int, name: str, message: str) -> None:
    if of_released(message):
        order.released[number] = 1
    elif versions := _VERSIONS.search(message):
        order.stale.setdefault(number, []).append((name, int(versions[2]), int(versions[1])))


def of_released(message: str) -> bool:
    """Whether a message of the engine, or of a saved tensor, is about what an earlier call has released.

    No package but the standard library and torch is at hand here, so the patterns of ``graphdoc.messages`` are not.
    """
    return any(text in message for text in _RELEASED)


def upward(order: Graph) -> Iterator[tuple[int, int]]:
    """Every edge as (source, target), behind all the edges out of its target; linear, no recursion."""
    if order.by_time:
        return zip(reversed(order.sources), reversed(order.targets), strict=True)
    return _upward(order)


def _upward(order: Graph) -> Iterator[tuple[int, int]]:
    """The same, whatever the order of the walk."""
    state = bytearray(len(order))
    for start in range(len(order)):
        todo = [start] if not state[start] else []
        while todo:
            n = todo[-1]
            if state[n] == 0:
                state[n] = 1
                todo += [m for m in order.following(n) if not state[m]]
                continue
            todo.pop()
            if state[n] == 1:
                state[n] = 2
                for m in order.following(n):
                    yield n, m


class Above:
    """The nodes that lead to each node at once, by number; worked out at the first question."""

    def __init__(self, order: Graph) -> None:
        self._order = order

    @cached_property
    def _edges(self) -> tuple[array[int], array[int]]:
        """The last edge to each node, and the one to the same node before each; -1: none."""
        last, before = array("i", [-1]) * len(self._order), array("i")
        for edge, m in enumerate(self._order.targets):
            before.append(last[m])
            last[m] = edge
        return last, before

    def __getitem__(self, number: int) -> list[int]:
        last, before = self._edges
        out = []
        edge = last[number]
        while edge >= 0:
            out.append(self._order.sources[edge])
            edge = before[edge]
        return sorted(out)


def gather(
    order: Graph, own: Iterable[tuple[int, int]], without: Collection[tuple[int, int]] = frozenset()
) -> list[int]:
    """For every node the union (bitwise or) of its ``own`` bits, given by number, and those of everything below it.

    Args:
        without: edges that are taken for absent.
    """
    out = [0] * len(order)
    cut = {n for n, _ in without}
    for n, bits in own:
        out[n] = bits
    for n, m in upward(order):
        if n in cut and (n, m) in without:
            continue
        known, bits = out[n], out[m]
        # Nodes with the same bits share one number: of many bits each is an object.
        if (union := known | bits) != known:
            out[n] = bits if union == bits else union
    return out


def below(order: Graph, dead: bytearray) -> tuple[list[int], bytearray, dict[int, Any]]:
    """For every node: the leaves it leads to (a bit set), and whether anything dead lies at or below it.

    Args:
        order: the nodes of the graph, as ``walk`` found them.
        dead: by number, whether they cannot be used.

    Returns:
        (bit sets by node number, 0 or 1 by node number, leaf tensor by bit position).
    """
    leaves: dict[int, Any] = {}
    bit_of: dict[int, int] = {}
    own: list[tuple[int, int]] = []
    for number, leaf in sorted(order.leaves.items()):
        position = bit_of.setdefault(id(leaf), len(bit_of))
        leaves[position] = leaf
        own.append((number, 1 << position))
    return gather(order, own), reaching(order, dead), leaves


def reaching(order: Graph, marked: bytearray) -> bytearray:
    """For every node, whether it or anything below it is marked."""
    out = bytearray(marked)
    for n, m in upward(order):
        if out[m]:
            out[n] = 1
    return out
