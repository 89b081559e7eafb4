"""The journal: backward calls and optimizer steps in order, of all threads on one scale, bounded in memory."""

from __future__ import annotations

import _thread
import itertools
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from graphdoc.capture.graph.walk import DEEP, nodes_behind
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.living import Living

# Events of several threads on one scale of time: PyTorch numbers the graph nodes of each thread from 0.

_numbers = itertools.count()


class ThreadNumber(_thread._local):
    """``number`` is the calling thread's. The system gives the identity of a thread that has ended to the next one,
    whose nodes begin at 0 again.
    """

    def __init__(self) -> None:
        self.number = next(_numbers)


def on_one_scale(entries: list[Entry], thread: int) -> None:
    """Let the sequence numbers of these events mean the counter of one thread: of ``thread``, or where that has made
    none of them, of the one that made the latest call.

    The counter is a thread_local (aten/src/ATen/SequenceNumber.cpp). What another thread did gets the number at which
    this one was seen last: nothing then counts as made before it of which that is not known. A call whose root has a
    higher number than the counter of its own thread differentiates what another thread has made, and comes after that;
    where the latest call is of this kind, the roots of such calls are the scale.
    """
    if len({e.thread for e in entries}) < 2:
        return
    calls = [e for e in entries if e.kind in ("backward", "grad")]
    if thread not in {e.thread for e in entries}:
        thread = (calls or entries)[-1].thread
    latest = next((e for e in reversed(calls) if e.thread == thread), None)
    by_roots = latest is not None and _of_another(latest)
    now = 0
    for e in entries:
        if by_roots and _of_another(e):
            now = max(now, e.root + 1)
        elif e.thread == thread and not by_roots:
            now = max(now, e.sequence)
        else:
            e.root = -1
        e.sequence = now


def _of_another(entry: Entry) -> bool:
    """Whether the root of this call was made in another thread: its own has not come to that number yet."""
    return entry.root >= entry.sequence


# The journal: backward calls and optimizer steps in order, bounded in memory however long the run is.

KEPT = 400
"""How many of the latest events are kept."""
FIRST = 3
"""How many of the first events of each place are kept for good, and measured for what they reach."""
MOST_PLACES = 5_000
"""Places whose events are counted."""
MOST_FIRSTS = 300
"""Places whose first events are kept for good."""
MOST_BORN, MOST_GIVEN = 400, 20_000
"""Parameters made behind an optimizer that are remembered, and those that modules were given at all."""
MOST_OPTIMIZERS = 200
"""Optimizers after which those that have ended are forgotten."""
TRAINED, MOST_TRAINED = 4, 8
"""Steps above which an optimizer has trained something, and how many such a second run waits for."""
BATCH = 128
"""Events that wait until their places are worked out."""
DEPTH = 8
"""Innermost frames that tell two places apart."""

Call = tuple[int, str, int, tuple[int, ...], tuple[bool, bool], frozenset[int] | None]
"""Of a backward call: first root (sequence number, type, which output), the other roots (number and output of each, one
after the other), (retain_graph, create_graph), reaches."""
Noted = tuple[int, str, int, stacks.Seen, int, Call | None, int]
"""Index, kind, sequence number, stack, optimizer, call and thread of an event, noted while the program runs."""


class Entry:
    """One event as it is read; see ``graphdoc.evidence.Event`` for the meaning of the fields."""

    def __init__(self, noted: Noted, place: Place, occurrence: int, failed: bool, living: Living) -> None:
        self.noted = noted
        self.index, self.kind, self.sequence, seen, self.optimizer, call, self.thread = noted
        self.seen = seen
        self.raw = stacks.stack_of_seen(seen)
        none = (-1, "", -1, (), (False, False), None)
        self.root, self.root_op, self.root_output, self.other_roots, how, self.reaches = call or none
        if self.reaches is not None:
            self.reaches = living.then(self.reaches, self.index)
        self.retain_graph, self.create_graph = how
        self.place = place
        self.occurrence = occurrence
        self.failed = failed

    def may_reach(self, ids: Collection[int]) -> bool:
        """Whether this call may have reached one of these leaves: of which it did is not known of every call."""
        return self.reaches is None or not self.reaches.isdisjoint(ids)

    def concerns(self, optimizers: Collection[int], ids: Collection[int]) -> bool:
        """Whether it gives gradients to these leaves, or uses or clears those of one of these optimizers."""
        if self.kind == "backward":
            return self.may_reach(ids)
        return self.kind in ("step", "zero_grad") and self.optimizer in optimizers


@dataclass(slots=True, eq=False)
class Place:
    """Where events happen: two from the same expressions of the innermost frames are at the same place."""

    occurrences: int = 0
    kept: bool = False
    first: list[tuple[Noted, Place, int]] = field(default_factory=list)
    latest: Noted | None = None
    following: Place | None = None
    """Where the event after the latest from here happened: a training loop goes round."""


class Seen:
    """What is remembered of one optimizer without keeping it alive.

    A package may hand the user an object of its own about the optimizer, with the very list of its groups (Lightning's
    ``LightningOptimizer``): the two are one optimizer.
    """

    __slots__ = ("about", "due", "id", "look", "parameters", "ref", "sequence", "span", "stack", "steps", "type")

    def __init__(self, ident: int, optimizer: Any, stack: stacks.Stack | None) -> None:
        self.id = ident
        self.stack = stack
        """Where it was made; None where that was not seen."""
        self.ref = weakref.ref(optimizer)
        self.about: list[weakref.ref[Any]] = []
        self.type = type(optimizer).__name__
        self.steps = 0
        self.span = (0, 0)
        """How many steps of any optimizer there had been when this one was first seen, and when it was last used."""
        self.look = 1
        """The step after which to look at the parameters again."""
        self.parameters: tuple[int, ...] = ()
        self.due = 0
        """The step that the audit looks at next."""
        self.sequence = -1
        """Autograd's sequence number at the latest step."""

    def known(self) -> list[Any]:
        """The objects that are this optimizer, as far as they live."""
        return [found for ref in (self.ref, *self.about) if (found := ref()) is not None]

    def is_one_of(self, optimizer: Any) -> bool:
        """Whether this object is this optimizer."""
        return any(found is optimizer for found in self.known())

    def has_groups_of(self, optimizer: Any) -> bool:
        """Whether another object's groups are the very list of this one."""
        groups = getattr(optimizer, "param_groups", None)
        return groups is not None and any(getattr(o, "param_groups", None) is groups for o in self.known())


class Journal:
    """Everything that happened, as far as it is kept."""

    def __init__(self, sequence_nr: Any) -> None:
        self._sequence_nr = sequence_nr
        self.here = ThreadNumber()
        self._settled = 0
        self._pending: list[Noted] = []
        kinds = ("backward", "grad", "step", "zero_grad", "load_state_dict")
        self.look = {kind: stacks.Look(one_way=True) for kind in kinds}
        """Reads the stack of an event of this kind that happens now."""
        self._calls: dict[Any, int] = {}
        self._late: stacks.Seen = ()
        self._late_top: tuple[str, ...] = ()
        self._latest: deque[tuple[Noted, Place, int]] = deque(maxlen=KEPT)
        self._failed: deque[int] = deque(maxlen=KEPT)
        self._places: dict[Any, Place] = {}
        self._known: dict[tuple[Any, ...], tuple[Place, stacks.RawStack]] = {}
        self._before = Place()
        self._optimizer_count = 0
        self.optimizers: dict[int, Seen] = {}
        """By their numbers."""
        self._known_as: dict[int, Seen] = {}
        """By the id of each object that is one."""
        self._begun: dict[int, tuple[weakref.ref[Any], stacks.Stack, dict[int, CodeType]]] = {}
        """By the id of an optimizer: where it was made, and what ``spent`` tells."""
        self.steps = 0
        """How many steps there have been, of any optimizer."""
        self.living = Living(lambda: self.count, self._forget)
        self._born: dict[int, tuple[frozenset[int], stacks.Stack]] = self.living.forgetting({})
        """By the id of a parameter: the optimizers that had been made, and where."""
        self._given: set[int] = self.living.forgetting(set())
        """Ids of the parameters that modules were given."""
        self.with_grad: dict[int, int] = self.living.forgetting({})

    @property
    def count(self) -> int:
        """How many events there have been."""
        return self._settled + len(self._pending)

    @property
    def nodes_made(self) -> int:
        """How many nodes this thread has recorded so far."""
        return int(self._sequence_nr())

    def has(self, *kinds: str) -> bool:
        """Whether there has been an event of one of these kinds."""
        return any(e.kind in kinds for e in self.entries())

    def add(self, kind: str, seen: stacks.Seen, optimizer: int = -1, call: Call | None = None) -> Noted:
        """Note an event that happens now. What it means is worked out later, for many at once.

        Done one by one between the program's own calls the same work takes several times as long: nothing of it is in
        the processor's caches then.
        """
        pending = self._pending
        noted = (self._settled + len(pending), kind, self._sequence_nr(), seen, optimizer, call, self.here.number)
        pending.append(noted)
        if len(pending) >= BATCH:
            self.settle()
        return noted

    def failed(self, noted: Noted) -> None:
        """This backward call has raised."""
        self._failed.append(noted[0])

    def settle(self) -> None:
        """Give the pending events their places."""
        pending, self._pending = self._pending, []
        self._settled += len(pending)
        before = self._before
        add = self._latest.append
        for noted in pending:
            place = before.following
            latest = None if place is None else place.latest
            if latest is None or latest[3] != noted[3] or latest[1] != noted[1] or latest[4] != noted[4]:
                place = before.following = self._place_of(noted)
            assert place is not None
            place.latest = noted
            before = place
            count = place.occurrences
            place.occurrences = count + 1
            settled = (noted, place, count)
            add(settled)
            if count < FIRST and place.kept:
                place.first.append(settled)
        self._before = before

    def _place_of(self, noted: Noted) -> Place:
        whole = stacks.stack_of_seen(noted[3]).raw
        # Ids and instructions are quick to compare; the places they stand for are looked up once.
        key = (noted[1], noted[4], *whole[1 : 2 * DEPTH : 2], *map(id, whole[: 2 * DEPTH : 2]))
        known = self._known.get(key)
        return known[0] if known is not None else self._place(key, whole)

    def is_early(self, seen: stacks.Seen, top: tuple[str, ...]) -> bool:
        """Whether this is among the first calls from its place, at a glance: only the frame before last is compared.

        ``top`` are the types of the root and of what lies below it: a term that is added to the loss later, when the
        second task begins or a penalty is switched on, makes it another one.
        """
        if seen == self._late and top == self._late_top:
            return False
        key = (id(seen[4]), seen[5], top) if len(seen) > 6 else (len(seen), top)
        calls = self._calls.get(key, 0)
        if calls >= 3 * FIRST or len(self._calls) >= MOST_PLACES:
            self._late, self._late_top = seen, top
            return False
        self._calls[key] = calls + 1
        return True

    def _place(self, key: tuple[Any, ...], whole: stacks.RawStack) -> Place:
        site = (*key[:2], site_of(whole, library=True, depth=DEPTH))
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

    def entries(self, since: int = 0) -> list[Entry]:
        """All that is kept, in order; or of these the ones with this index and those behind it."""
        self.settle()
        known = {e[0][0]: e for place in self._places.values() for e in place.first}
        known.update((e[0][0], e) for e in self._latest)
        return [Entry(*known[i], i in self._failed, self.living) for i in sorted(known) if i >= since]

    def together(self) -> list[Entry]:
        """The latest of these that follow one another without a gap."""
        entries = self.entries()
        gaps = (n for n in range(len(entries) - 1, 0, -1) if entries[n].index != entries[n - 1].index + 1)
        return entries[next(gaps, 0) :]

    def entry_of(self, noted: Noted, entries: list[Entry], failed: bool) -> Entry:
        """This event as it is among the entries; or as it was noted, where it is kept no more."""
        found = next((e for e in entries if e.index == noted[0]), None)
        return found or Entry(noted, Place(), 0, failed, self.living)

    def numbers(self) -> dict[int, int]:
        """Which call of its kind in the run each kept event is, from 1, by its index; only those of which it is known:
        the first ones, and the latest, which are counted back from the end."""
        entries = self.entries()
        found: dict[int, int] = {}
        so_far: Counter[str] = Counter()
        for e in itertools.takewhile(lambda e: e.index == len(found), entries):
            so_far[e.kind] += 1
            found[e.index] = so_far[e.kind]
        left: Counter[str] = Counter()
        for (kind, *_), place in self._places.items():
            left[kind] += place.occurrences
        if len(self._places) < MOST_PLACES:
            for noted, _, _ in reversed(self._latest):
                found[noted[0]] = left[noted[1]]
                left[noted[1]] -= 1
        return found

    def latest(self, kind: str, optimizer: int | None = None) -> Entry | None:
        """The last event of this kind, of this optimizer where one is given; the others are not read if it is near."""
        self.settle()
        for noted, place, occurrence in reversed(self._latest):
            if noted[1] == kind and optimizer in (None, noted[4]):
                return Entry(noted, place, occurrence, noted[0] in self._failed, self.living)
        return next((e for e in reversed(self.entries()) if e.kind == kind and optimizer in (None, e.optimizer)), None)

    def begins(self, optimizer: Any, stack: stacks.Stack) -> None:
        """An optimizer is being made."""
        if len(self._begun) >= MOST_OPTIMIZERS:
            self._begun = {i: one for i, one in self._begun.items() if one[0]() is not None}
        if len(self._begun) < MOST_OPTIMIZERS:
            self._begun[id(optimizer)] = weakref.ref(optimizer), stack, {}

    def _begun_at(self, optimizer: Any) -> stacks.Stack | None:
        ref, stack, _ = self._begun.get(id(optimizer), (None, None, None))
        return stack if ref is not None and ref() is optimizer else None

    def spent(self, optimizer: Any) -> dict[int, CodeType]:
        """The code of the generators that had ended when this optimizer was given them, by the number of the group."""
        ref, _, spent = self._begun.get(id(optimizer), (None, None, None))
        return spent if spent is not None and ref is not None and ref() is optimizer else {}

    def given(self, parameters: list[Any]) -> None:
        """A module has these parameters."""
        if len(self._given) < MOST_GIVEN:
            self.living.note(parameters)
            self._given.update(map(id, parameters))

    def born(self, parameter: Any, stack: Callable[[], stacks.Stack]) -> None:
        """A module is given this new parameter: where, and behind which optimizers, is kept."""
        self.given([parameter])
        if self._begun and len(self._born) < MOST_BORN:
            self.living.note([parameter])
            if id(parameter) not in self._born:
                self._born[id(parameter)] = frozenset(self._begun), stack()

    def was_given(self, ident: int) -> bool:
        """Whether a module was given this parameter, or may have been; no model has ever had one that was not."""
        return ident in self._given or len(self._given) >= MOST_GIVEN

    def born_behind(self, ident: int, optimizer: Any) -> stacks.Stack | None:
        """Where a module was given this parameter, if that was when the optimizer had been made already."""
        begun, stack = self._born.get(ident, (frozenset(), None))
        return stack if id(optimizer) in begun and self._begun_at(optimizer) is not None else None

    def made(self) -> list[tuple[Any, Seen | None]]:
        """The optimizers that were seen made and live, each with its record if it has done anything."""
        alive = [o for ref, *_ in self._begun.values() if (o := ref()) is not None]
        return [(o, s if (s := self._known_as.get(id(o))) is not None and s.is_one_of(o) else None) for o in alive]

    def optimizer(self, optimizer: Any) -> Seen:
        """The record of this optimizer, made at its first sight."""
        seen = self._known_as.get(id(optimizer))
        if seen is not None and (seen.ref() is optimizer or seen.is_one_of(optimizer)):
            return seen  # as nearly always
        seen = next((s for s in self.optimizers.values() if s.has_groups_of(optimizer)), None)
        if seen is not None:
            seen.about.append(weakref.ref(optimizer))
            seen.stack = seen.stack or self._begun_at(optimizer)
        else:
            if len(self.optimizers) >= MOST_OPTIMIZERS:  # a program may make one for each of its steps
                self.optimizers = {i: s for i, s in self.optimizers.items() if s.known()}
            seen = Seen(self._optimizer_count, optimizer, self._begun_at(optimizer))
            seen.span = (self.steps, self.steps)
            self.optimizers[self._optimizer_count] = seen
            self._optimizer_count += 1
        self._known_as[id(optimizer)] = seen
        return seen

    def is_double(self, seen: Seen) -> bool:
        """Whether another optimizer that has stepped holds all that this one does."""
        mine = set(seen.parameters)
        return any(o is not seen and o.steps and mine <= {*o.parameters} for o in self.optimizers.values())

    @property
    def trained(self) -> list[int]:
        """The numbers of the first optimizers that have trained something."""
        return [seen.id for seen in self.optimizers.values() if seen.steps > TRAINED][:MOST_TRAINED]

    def live(self) -> list[tuple[Seen, Any]]:
        """The optimizers that have done anything and still live."""
        return [(seen, o) for seen in self.optimizers.values() if (o := seen.ref()) is not None]

    def held(self, stepped: bool = False) -> set[int]:
        """The ids of the parameters that optimizers hold; with ``stepped`` of those alone that have made a step."""
        every = self.optimizers.values()
        return {ident for seen in every if seen.steps or not stepped for ident in seen.parameters}

    def with_idle(self, optimizers: Iterable[Any]) -> list[tuple[Seen, list[Any]]]:
        """The remembered optimizers with the objects that they are, and of the given ones those that have done nothing
        yet, each in a record of its own that is not kept."""
        out = [(seen, seen.known()) for seen in self.optimizers.values()]
        for optimizer in optimizers:
            known = next((k for k in out if k[0].is_one_of(optimizer) or k[0].has_groups_of(optimizer)), None)
            if known is None:
                number = self._optimizer_count + len(out) - len(self.optimizers)
                out.append((Seen(number, optimizer, self._begun_at(optimizer)), [optimizer]))
            elif all(o is not optimizer for o in known[1]):
                known[1].append(optimizer)
        return out

    def stepped(self, optimizer: Any) -> Seen:
        """An optimizer has stepped: note which of its parameters have a gradient, in its first steps only."""
        seen = self.optimizer(optimizer)
        self.steps += 1
        seen.span = (seen.span[0], self.steps)
        if not seen.steps:
            seen.type = type(optimizer).__name__
        seen.steps = steps = seen.steps + 1
        if steps >= seen.look:
            # The first steps, then ever more rarely.
            seen.look = steps + 1 if steps < FIRST else 2 * steps
            mine = parameters_of(optimizer)
            self.living.note(mine)
            for p in mine:
                if p.grad is not None:
                    self.with_grad[id(p)] = self.with_grad.get(id(p), 0) + 1
            seen.parameters = tuple(map(id, mine))
        return seen

    def _forget(self, ids: set[int]) -> None:
        for seen in self.optimizers.values():
            if not ids.isdisjoint(seen.parameters):
                seen.parameters = tuple(i for i in seen.parameters if i not in ids)


def leaves_behind(roots: Iterable[Any]) -> dict[int, Any] | None:
    """The leaf tensors that these graph nodes lead to, by id; None where the graph is larger than ``walk.DEEP``."""
    found: dict[int, Any] = {}
    for count, (node, following) in enumerate(nodes_behind(roots)):
        if count >= DEEP:
            return None
        if not following:
            variable = getattr(node, "variable", None)
            if variable is not None:
                found[id(variable)] = variable
    return found
