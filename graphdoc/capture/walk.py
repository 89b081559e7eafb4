"""Walking a graph after a failure: every node once, without recursion, with what it saved and in what state that is."""

from __future__ import annotations

import ctypes
import re
import sys
from array import array
from collections.abc import Container, Iterable, Iterator
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from graphdoc.capture import saved
from graphdoc.capture.facts import storage_of
from graphdoc.capture.saved_contents import SHOWS, contents

_VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")
_RELEASED = ("a second time", "already been freed", "after they have already")
"""What every PyTorch says of a saved tensor that a backward call has released."""
VIEWS = {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "AliasBackward0", "TBackward0"}
VIEWS |= {"PermuteBackward0", "TransposeBackward0", "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"}
VIEWS |= {"SliceBackward0", "SelectBackward0", "ExpandBackward0"}
"""Nodes of operations that copy nothing."""


_NOTHING: Any = ()
"""Stands for the lists of the many nodes that have nothing in them."""


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


class Found:
    """One node of the walk. ``stale`` holds (attribute, expected version, current version) of its stale tensors."""

    __slots__ = ("following", "leaf", "node", "number", "released", "saves", "sequence", "stale")

    def __init__(self, number: int, node: Any, sequence: int) -> None:
        self.number = number
        self.node = node
        self.sequence = sequence
        self.following: list[int] = _NOTHING
        self.released = False
        self.saves = False
        self.stale: list[tuple[str, int, int]] = _NOTHING
        self.leaf: Any = None

    @property
    def op(self) -> str:
        return op_of(self.node)


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

_saved_names: dict[type, tuple[str, ...]] = {}


def attributes(cls: type) -> tuple[str, ...]:
    """Names of the saved tensors of a node type (``_saved_self`` …), read once per type."""
    names = _saved_names.get(cls)
    if names is None:
        every = dir(cls)
        names = tuple(a for a in every if a.startswith("_saved_") and "_raw" + a in every)
        _saved_names[cls] = names
    return names


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


def walk(roots: Iterable[Any], limit: int = MOST_NODES) -> list[Found]:
    """Every node reachable from ``roots``, in the order met. ``following`` are positions in the returned list.

    Args:
        roots: graph nodes (``tensor.grad_fn``).
        limit: stop after this many nodes; less than ``DEEP``, while the program may go on.
    """
    order: list[Found] = []
    known: dict[Any, int] = {}
    todo: list[Found] = []
    # Of a part the engine's own order, so that what it had run before it failed is in it.
    heap: list[tuple[int, int]] | None = [] if limit < DEEP else None

    following: Iterable[tuple[Any, int]] = [(root, 0) for root in roots]
    numbers: list[int] = []
    while True:
        for node, _ in following:
            if node is None:
                continue
            number = known.get(node)
            if number is None:
                number = known[node] = len(order)
                sequence = node._sequence_nr()
                found = Found(number, node, sequence if sequence < NO_SEQUENCE else NO_SEQUENCE)
                order.append(found)
                if heap is None:
                    todo.append(found)
                else:
                    heappush(heap, (-found.sequence, number))
            numbers.append(number)
        if not (todo or heap) or len(order) >= limit:
            break
        found = order[heappop(heap)[1]] if heap else todo.pop()
        following = found.node.next_functions
        if following:
            numbers = found.following = []
        else:
            found.leaf = getattr(found.node, "variable", None)
    if limit > DEEP and len(order) > DEEP:
        _keep_for_good([f.node for f in order])
    return order


def _keep_for_good(nodes: list[Any]) -> None:
    """Never free these nodes, not even when Python ends.

    From PyTorch 2.13 on a node that Python has looked at is freed through Python, each inside the one that leads to it.
    A chain of some ten thousand overflows the C stack: the program would end in a segmentation fault.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(nodes))


def examine_all(order: list[Found], limit: int = NO_SEQUENCE) -> int:
    """Examine every node up to the sequence number ``limit``, and return how many released ones were only inferred.

    Asking a released node costs an exception. After ``MOST_RAISED`` of them a node below a released one that holds
    nothing any more is released if others of its type were. After ``MOST_ASKED`` the nodes below a released one are
    taken for released too, if they are of a type that saves tensors: the call that released it went on to them.
    """
    asked = inferred = 0
    below = bytearray(len(order))
    known: set[type] = set()
    for found in sorted(order, key=attrgetter("sequence"), reverse=True):
        if found.sequence > limit:
            continue
        cls = type(found.node)
        names = _saved_names.get(cls)
        if names is None:
            names = attributes(cls)
        deep = below[found.number] and asked >= MOST_RAISED
        if deep and asked >= MOST_ASKED:
            found.released = found.saves = bool(names)
            inferred += found.released
        elif deep and cls in known and _is_empty(found.node, names):
            found.released = found.saves = True
            asked += 1
        elif names or hasattr(cls, "saved_tensors"):
            examine(found)
            if found.released:
                asked += 1
                known.add(cls)
        if found.released or below[found.number]:
            for m in found.following:
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


def examine(found: Found) -> None:
    """Fill in whether the node's saved tensors were released or written to since.

    Reading ``_saved_x`` raises the very errors that backward raises, without side effects. A tensor packed by saved
    tensor hooks is left alone (see ``graphdoc.capture.saved``); what is released has lost its hooks.
    """
    node = found.node
    cls = type(node)
    names = attributes(cls)
    if names:
        for name in names:
            _examine_one(found, name)
            if found.released:
                break
    elif hasattr(cls, "saved_tensors"):
        found.saves = True
        try:
            # Released ones are told by the raw attribute already; what reading the other one does, its Function says.
            hooked = saved.may_be_hooked(getattr(node, "_raw_saved_tensors", None))
            if not hooked and not saved.forgets(cls):
                node.saved_tensors  # noqa: B018
        except RuntimeError as e:
            _note(found, "saved_tensors", str(e))


def _examine_one(found: Found, name: str) -> None:
    node = found.node
    try:
        raw = getattr(node, "_raw" + name)
    except RuntimeError as e:
        _note(found, name, str(e))
        return
    if raw is None:
        return
    found.saves = True
    try:
        if saved.may_be_hooked(raw):
            return
        getattr(node, name)
    except RuntimeError as e:
        _note(found, name, str(e))


def _note(found: Found, name: str, message: str) -> None:
    found.saves = True
    if of_released(message):
        found.released = True
    elif versions := _VERSIONS.search(message):
        found.stale = [*found.stale, (name, int(versions[2]), int(versions[1]))]


def of_released(message: str) -> bool:
    """Whether a message of the engine, or of a saved tensor, is about what an earlier call has released.

    No package but the standard library and torch is at hand here, so the patterns of ``graphdoc.messages`` are not.
    """
    return any(text in message for text in _RELEASED)


def upward(order: list[Found]) -> list[int]:
    """The numbers of all nodes, each behind those that it leads to; linear, no recursion."""
    out: list[int] = []
    state = bytearray(len(order))
    for start in range(len(order)):
        todo = [start] if not state[start] else []
        while todo:
            n = todo[-1]
            if state[n] == 0:
                state[n] = 1
                for m in order[n].following:
                    if not state[m]:
                        todo.append(m)
                continue
            todo.pop()
            if state[n] == 1:
                state[n] = 2
                out.append(n)
    return out


class Above:
    """The nodes that lead to each node at once, by number: those of all nodes stand in one array, one after another."""

    def __init__(self, order: list[Found]) -> None:
        first = [0] * (len(order) + 1)
        for found in order:
            for m in found.following:
                first[m] += 1
        total = 0
        for n, count in enumerate(first):
            total += count
            first[n] = total  # where those of the next begin; filled from behind
        self._of = array("l", bytes(total * array("l").itemsize))
        for found in reversed(order):
            for m in reversed(found.following):
                first[m] -= 1
                self._of[first[m]] = found.number
        self._first = array("l", first)

    def __getitem__(self, number: int) -> array[int]:
        return self._of[self._first[number] : self._first[number + 1]]


def gather(order: list[Found], own: dict[int, int], numbers: list[int] | None = None) -> list[int]:
    """For every node the union (bitwise or) of its own bits and those of everything below it.

    ``numbers`` is what ``upward`` says of this graph, where that is known already.
    """
    out = [0] * len(order)
    for n, value in own.items():
        out[n] = value
    for n in upward(order) if numbers is None else numbers:
        value = out[n]
        for m in order[n].following:
            value |= out[m]
        out[n] = value
    return out


def below(order: list[Found], dead: set[int], numbers: list[int]) -> tuple[list[int], list[int], dict[int, Any]]:
    """For every node: the leaves it leads to (a bit set), and whether anything dead lies at or below it.

    Args:
        order: the nodes of the graph, as ``walk`` found them.
        dead: the numbers of those that cannot be used.
        numbers: what ``upward`` says of them.

    Returns:
        (bit sets by node number, 0 or 1 by node number, leaf tensor by bit position).
    """
    leaves: dict[int, Any] = {}
    bit_of: dict[int, int] = {}
    own: dict[int, int] = {}
    for found in order:
        if found.leaf is not None:
            position = bit_of.setdefault(id(found.leaf), len(bit_of))
            leaves[position] = found.leaf
            own[found.number] = 1 << position
    return gather(order, own, numbers), gather(order, dict.fromkeys(dead, 1), numbers), leaves
