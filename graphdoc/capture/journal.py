"""The journal: backward calls and optimizer steps in order, bounded in memory however long the run is."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

from graphdoc.capture import stacks

KEPT = 400
"""How many of the latest events are kept."""
FIRST = 3
"""How many of the first events of each place are kept for good, and measured for what they reach."""
MOST_PLACES = 5_000
"""Places whose events are counted."""
MOST_FIRSTS = 300
"""Places whose first events are kept for good."""
BATCH = 128
"""Events that wait until their places are worked out."""
DEPTH = 8
"""Innermost frames that tell two places apart."""
WALK_LIMIT = 10_000
"""Graphs larger than this many nodes are not measured while the program runs (see ``walk.DEEP``)."""


class Entry:
    """One raw event; see ``graphdoc.evidence.Event`` for the meaning of the fields."""

    root = -1
    root_op = ""
    root_count = 1
    retain_graph = False
    create_graph = False
    reaches: frozenset[int] | None = None
    failed = False
    detail = ""
    occurrence = 0
    place: Place

    def __init__(self, index: int, kind: str, sequence: int, raw: stacks.Stack, optimizer: int) -> None:
        self.index = index
        self.kind = kind
        self.sequence = sequence
        self.raw = raw
        self.optimizer = optimizer


class Place:
    """Where events happen: two from the same expressions of the innermost frames are at the same place."""

    __slots__ = ("first", "following", "kept", "latest", "occurrences")

    def __init__(self) -> None:
        self.occurrences = 0
        self.kept = False
        self.first: list[Entry] = []
        self.latest: Entry | None = None
        self.following: Place | None = None
        """Where the event after the latest from here happened: a training loop goes round."""


class Seen:
    """What is remembered of one optimizer without keeping it alive."""

    __slots__ = ("id", "parameters", "ref", "steps", "type")

    def __init__(self, ident: int, optimizer: Any) -> None:
        self.id = ident
        self.ref = weakref.ref(optimizer)
        self.type = type(optimizer).__name__
        self.steps = 0
        self.parameters: tuple[int, ...] = ()


class Journal:
    """Everything that happened, as far as it is kept."""

    def __init__(self, sequence_nr: Any) -> None:
        self._sequence_nr = sequence_nr
        self.count = 0
        self._pending: list[Entry] = []
        self._calls: dict[Any, int] = {}
        self._latest: deque[Entry] = deque(maxlen=KEPT)
        self._places: dict[Any, Place] = {}
        self._known: dict[tuple[Any, ...], tuple[Place, stacks.RawStack]] = {}
        self._before = Place()
        self._optimizer_count = 0
        self.optimizers: dict[int, Seen] = {}
        self.with_grad: dict[int, int] = {}

    def add(self, kind: str, raw: stacks.Stack, optimizer: int = -1) -> Entry:
        """Append an event that happens now at the stack ``raw``. What it means is worked out later, for many at once.

        Done one by one between the program's own calls the same work takes several times as long: nothing of it is in
        the processor's caches then.
        """
        entry = Entry(self.count, kind, self._sequence_nr(), raw, optimizer)
        self.count += 1
        self._pending.append(entry)
        if len(self._pending) >= BATCH:
            self.settle()
        return entry

    def settle(self) -> None:
        """Give the pending events their places."""
        pending, self._pending = self._pending, []
        before = self._before
        add = self._latest.append
        for entry in pending:
            place = before.following
            if place is None or not _alike(place.latest, entry):
                place = before.following = self._place_of(entry)
            place.latest = entry
            entry.place = before = place
            entry.occurrence = count = place.occurrences
            place.occurrences = count + 1
            add(entry)
            if count < FIRST and place.kept:
                place.first.append(entry)
        self._before = before

    def _place_of(self, entry: Entry) -> Place:
        whole = entry.raw.raw
        # Ids and instructions are quick to compare; the places they stand for are looked up once.
        key = (entry.kind, entry.optimizer, *whole[1 : 2 * DEPTH : 2], *map(id, whole[: 2 * DEPTH : 2]))
        known = self._known.get(key)
        return known[0] if known is not None else self._place(key, whole)

    def is_early(self, stack: stacks.Stack) -> bool:
        """Whether this is among the first calls from its place, at a glance: only the frame before last is compared."""
        chain = stack.chain
        key = (chain[4], id(chain[3])) if len(chain) > 4 else len(chain)
        calls = self._calls.get(key, 0)
        if calls >= 3 * FIRST or len(self._calls) >= MOST_PLACES:
            return False
        self._calls[key] = calls + 1
        return True

    def _place(self, key: tuple[Any, ...], whole: stacks.RawStack) -> Place:
        site = (*key[:2], stacks.site_of(whole, library=True, depth=DEPTH))
        place = self._places.get(site)
        if place is None:
            place = Place()
            if len(self._places) >= MOST_PLACES:
                place.occurrences = FIRST
                return place
            place.kept = len(self._places) < MOST_FIRSTS
            self._places[site] = place
        if len(self._known) < 4 * MOST_PLACES:
            # The code objects are kept, so that their ids stay their own.
            self._known[key] = place, whole[: 2 * DEPTH : 2]
        return place

    def entries(self) -> list[Entry]:
        """All that is kept, in order."""
        self.settle()
        known = {e.index: e for place in self._places.values() for e in place.first}
        known.update((e.index, e) for e in self._latest)
        return [known[i] for i in sorted(known)]

    def optimizer(self, optimizer: Any) -> Seen:
        """The record of this optimizer, made at its first sight."""
        seen = self.optimizers.get(id(optimizer))
        if seen is None or seen.ref() is not optimizer:
            seen = self.optimizers[id(optimizer)] = Seen(self._optimizer_count, optimizer)
            self._optimizer_count += 1
        return seen

    def stepped(self, optimizer: Any) -> Seen:
        """An optimizer has stepped: note which of its parameters have a gradient, in its first steps only."""
        seen = self.optimizers.get(id(optimizer))
        if seen is None or seen.ref() is not optimizer:
            seen = self.optimizer(optimizer)
        seen.steps = steps = seen.steps + 1
        if steps <= FIRST or not steps & (steps - 1):
            ids = []
            for group in optimizer.param_groups:
                for p in group["params"]:
                    ids.append(id(p))
                    if p.grad is not None:
                        self.with_grad[id(p)] = self.with_grad.get(id(p), 0) + 1
            seen.parameters = tuple(ids)
        return seen


def _alike(a: Entry | None, b: Entry) -> bool:
    """Whether two events have the very same stack, so that they need no look at their places."""
    if a is None or a.kind is not b.kind or a.optimizer != b.optimizer or a.raw.lasti != b.raw.lasti:
        return False
    one: stacks.Stack | None = a.raw
    other: stacks.Stack | None = b.raw
    while one is not other:
        if one is None or other is None or one.chain != other.chain:
            return False
        one, other = one.outer, other.outer
    return True


def leaves_behind(roots: Iterable[Any], limit: int = WALK_LIMIT) -> frozenset[int] | None:
    """Ids of the leaf tensors that these graph nodes lead to; None where the graph is larger than ``limit``."""
    seen: set[Any] = set()
    todo = [r for r in roots if r is not None]
    found: set[int] = set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if len(seen) > limit:
            return None
        following = node.next_functions
        if not following:
            variable = getattr(node, "variable", None)
            if variable is not None:
                found.add(id(variable))
            continue
        for n, _ in following:
            if n is not None:
                todo.append(n)
    return frozenset(found)
