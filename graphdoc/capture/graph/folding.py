"""The failing graph folded by source line, and what lies behind the values that its calls gave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from graphdoc.capture.graph.walk import NO_SEQUENCE, Above, Graph
from graphdoc.capture.places.code_places import is_user_file, spot
from graphdoc.capture.places.frames import frames_of, site_of
from graphdoc.capture.places.stacks import Stack, kept_in
from graphdoc.capture.tensors.facts import shape_of
from graphdoc.evidence import PART_FRAMES, PART_NAMES, Evidence, Folded, Part

if TYPE_CHECKING:
    from graphdoc.capture.graph.autopsy import Autopsy
    from graphdoc.capture.graph.walk import Found


MOST_PARTS = 400
"""Parts of a folded graph; with more of them the ways that lead to an expression are told apart less."""
MOST_EDGES = 2_000
MOST_NODES = 200_000
"""Nodes of a graph that is folded: a larger one is no more readable, and takes seconds."""
_DEPTHS = (400, 3, 2, 1)
"""Frames of the user's by which nodes are told apart: the whole way, and shorter ones where that is too much."""

Key = tuple[Any, ...]


class Folding:
    """Folds the graph of one examination, whose nodes have been looked at."""

    def __init__(self, seen: Autopsy) -> None:
        self._seen = seen
        calls = [e.sequence for e in seen.entries if e.kind in ("backward", "grad") and not e.failed]
        self._latest = max(calls, default=-1)
        self._callers: dict[int, tuple[int, ...]] = {}
        self._sites: dict[int, tuple[int, ...]] = {}
        self._owners = seen.owners if hasattr(seen, "owners") else {}

    def fold(self, evidence: Evidence) -> Folded | None:
        """The parts and the edges between them; None for a graph that is too large."""
        order = self._seen.order
        if not order or len(order) > MOST_NODES:
            return None
        for depth in _DEPTHS:
            places: dict[Key, int] = {}
            part_of = self._parts(depth, places)
            if len(places) <= MOST_PARTS:
                break
        else:
            return None
        folded = Folded([Part() for _ in places], root=part_of[0])
        self._count(folded, part_of)
        many = len(places)
        edges = Counter([part_of[n] * many + part_of[m] for n, m in zip(order.sources, order.targets, strict=True)])
        folded.edges = [[*divmod(edge, many), n] for edge, n in edges.most_common(MOST_EDGES)]
        folded.homes = [-1] * len(evidence.nodes)
        for number, ident in self._seen.numbers.items():
            folded.homes[ident] = part_of[number]
        return folded

    def _parts(self, depth: int, places: dict[Key, int]) -> list[int]:
        """The number of each node's part. The nodes of one kind, old and new ones apart, share theirs."""
        latest, order = self._latest, self._seen.order
        known: dict[int, int] = {}
        part_of = []
        for number, (sequence, kind) in enumerate(zip(order.sequences, self._seen.made.kind, strict=True)):
            alike = 2 * kind + (sequence >= latest) if number not in order.leaves else -1 - number
            part = known.get(alike)
            if part is None:
                part = known[alike] = places.setdefault(self._key(order[number], depth), len(places))
            part_of.append(part)
        return part_of

    def _site(self, number: int) -> tuple[int, ...]:
        """The user's frames that led to a node, innermost first; what the nodes of one kind share is read once."""
        kind = self._seen.made.kind[number]
        known = self._sites.get(kind)
        if known is None:
            kept = kept_in(self._seen.order.nodes[number])
            known = self._site_of(kept) if isinstance(kept, Stack) else site_of(kept) if isinstance(kept, list) else ()
            self._sites[kind] = known
        return known

    def _site_of(self, kept: Stack) -> tuple[int, ...]:
        code = kept.chain[0]
        callers = self._callers.get(id(kept.chain))
        if callers is None:
            callers = self._callers[id(kept.chain)] = site_of(kept.raw[2:])
        return (spot(code, kept.lasti), *callers) if is_user_file(code.co_filename) else callers

    def _key(self, found: Found, depth: int) -> Key:
        if found.leaf is not None:
            name = self._seen.census.parameter_names.get(id(found.leaf), "")
            module = name.rpartition(".")[0].split(".")[: 2 * depth]
            return ("leaf", bool(name), *module, *self._owners.get(id(found.leaf), ()))
        fresh, site = found.sequence >= self._latest, self._site(found.number)
        return (fresh, *site[:depth]) if site else (fresh, found.op)

    def _count(self, folded: Folded, part_of: list[int]) -> None:
        seen = self._seen
        many = len(folded.parts)
        low, high = [NO_SEQUENCE] * many, [-1] * many
        first: list[int] = []  # of each part, as parts are numbered in the order in which they were met
        for number, (part_number, sequence) in enumerate(zip(part_of, seen.order.sequences, strict=True)):
            if part_number == len(first):
                first.append(number)
            if sequence < low[part_number]:
                low[part_number] = sequence
            if high[part_number] < sequence < NO_SEQUENCE:
                high[part_number] = sequence
        for number in seen.order.stale:
            folded.parts[part_of[number]].stale += 1
        for number, leaf in sorted(seen.order.leaves.items()):
            self._name(folded.parts[part_of[number]], leaf)
        for part, oldest, newest in zip(folded.parts, low, high, strict=True):
            if newest >= 0:
                part.first, part.last = seen.iteration(oldest), seen.iteration(newest)
        for pair, count in Counter([a * many + n for n, a in zip(part_of, seen.made.kind, strict=True)]).items():
            kind, number = divmod(pair, many)
            part, op = folded.parts[number], seen.made.kinds[kind][1]
            part.nodes += count
            part.ops[op] = part.ops.get(op, 0) + count
        for part, found in zip(folded.parts, map(seen.order.__getitem__, first), strict=True):
            if found.leaf is None:
                frames = [f for f in frames_of(seen.raw_stack(found.node), seen.cwd) if f.user]
                part.stack = frames[-PART_FRAMES:]
                part.older = found.sequence < self._latest
        for n in seen.dead_ones():
            folded.parts[part_of[n]].released += seen.order.released[n] and n not in seen.order.stale

    def _name(self, part: Part, leaf: Any) -> None:
        name = self._seen.census.parameter_names.get(id(leaf)) or f"<unnamed {shape_of(leaf)}>"
        if len(part.parameters) < PART_NAMES and name not in part.parameters:
            part.parameters.append(name)
        part.owners = sorted({*part.owners, *self._owners.get(id(leaf), ())})


# What lies behind the values that calls gave out: of each of the program's calls in which a node was made. A node
# inside a call can lead to less than what the call gives out: a weight that is normalised before it is used leads to
# itself alone, the result of the layer to all that went in. Whoever cuts at the call cuts off the latter.

MOST_LOOKED_AT = 20_000
"""Nodes that are looked at for all questions about one graph together; beyond, what lies behind a call is not known."""


class GivenOut:
    """Follows results towards the loss, as long as they stay inside one call.

    Args:
        order: the nodes of the graph, by number.
        bits: for each node the leaves that it leads to, as bits.
        stack: reads the stack of a node, innermost first.
    """

    def __init__(self, order: Graph, bits: Sequence[int], stack: Callable[[Any], list[Any]]) -> None:
        self._order, self._bits, self._stack = order, bits, stack
        self._users = Above(order)
        self._sites: dict[int, tuple[int, ...]] = {}
        self._left = MOST_LOOKED_AT

    def behind(self, number: int) -> list[int]:
        """The leaves behind what each call gave out, as bits: the innermost call of the program's first, each with
        those of the calls inside it. Calls of which it could not be told in time are left out.
        """
        own = self._site(number)
        if not own:
            return []
        found: list[int] = []
        shares: dict[int, int] = {number: len(own)}
        heap = [(-len(own), number)]
        bits, level = 0, len(own)
        while heap and self._left > 0:
            shared, at = -heap[0][0], heappop(heap)[1]
            found += [bits] * (level - shared)
            level = shared
            if not level:
                return found
            self._left -= 1
            bits |= self._bits[at]
            for user in self._users[at]:
                if user not in shares:
                    shares[user] = min(shared, _shared(own, self._site(user)))
                    heappush(heap, (-shares[user], user))
        return found if heap else found + [bits] * level

    def _site(self, number: int) -> tuple[int, ...]:
        """The program's calls under way when the node was made, outermost first."""
        site = self._sites.get(number)
        if site is None:
            site = self._sites[number] = site_of(self._stack(self._order.nodes[number]))[::-1]
        return site


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many outermost calls two nodes have in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
