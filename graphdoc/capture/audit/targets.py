"""Networks that are copied from another one, or follow it, while a loss trains both; copies that copy nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from graphdoc.capture.audit.moved import is_readable
from graphdoc.capture.audit.watch import OFTEN, At, Early, EngineCall, Watch
from graphdoc.capture.events.journal import Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.summands import SUMS, is_number
from graphdoc.capture.places import stacks
from graphdoc.capture.tensors.facts import parameters_of, storage_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import has_memory, some_of

MOST_COPIES = 200
"""Copies that are looked at; a program makes a few of each kind or very many."""

MOST_LOOKS = 6
"""Losses that reach a network which is copied into itself, until one contains its values twice."""


class _Copy:
    """A network and the one that it was copied from, by the memory of their parameters."""

    def __init__(self, own: dict[int, Any], source: set[int], stack: Any) -> None:
        self.own, self.source = {s: Ref(p) for s, p in own.items()}, source
        self.stack = stack
        """Where it was copied; None where an average moves it."""
        self.looks = 0

    def alive(self) -> list[Any]:
        """The parameters of the network that still live."""
        return [p for r in self.own.values() if (p := r()) is not None]


class Targets(Watch):
    """``same-network``: a network is copied from itself; it ``rests`` where no loss shows what it was for, and
    the calls alone tell that another one was meant. ``became-network``: the trained one takes the place of another of
    its shapes, whose names are in ``facts["was"]``. ``target-trained``: one that is copied from another is reached by
    the same loss and stepped; ``stack`` is the value that brings it into the loss, ``other`` the copy."""

    def set_up(self) -> None:
        self._looked = 0
        self._copies: list[_Copy] = []
        self._same: list[_Copy] = []
        """A network that was copied into itself: a parameter server's or an actor's may well be the learner's own."""
        self._beside: Ref | None = None
        """A parameter of a second network of the same shapes, in no optimizer, that the same loss reaches."""
        self._was: list[str] = []
        self._gone = self._tries = 0
        """Losses that reach the trained network twice since, and the second one no more."""
        self._between: dict[tuple[str, int], int] = {}
        """Places that have copied one network into another: how often each has copied one into itself since."""
        self._resting: dict[tuple[str, int], int] = {}
        """Places that copied a network, which nothing trains, into itself: how often."""

    @property
    def waits(self) -> bool:
        """Whether the next backward call is to be looked at."""
        return bool(self._copies)

    def loaded(self, module: Any, state: Any, assign: bool) -> None:
        audit = self._audit
        if self._found or self._looked >= MOST_COPIES or not isinstance(state, dict):
            return
        if not any(seen.steps for seen in audit.journal.optimizers.values()):
            return  # before the training anything may be copied
        self._looked += 1
        tensor = audit.torch.Tensor
        given = {s for v in state.values() if isinstance(v, tensor) and (s := storage_of(v)) is not None}
        mine = {s: p for p in module.parameters() if (s := storage_of(p)) is not None}
        if not mine or not given:
            return
        raw = stacks.stack_here(4)  # loaded < Audit.loaded < the inserted callback < the function
        within = mine.keys() <= given
        if within or not mine.keys() & given:
            self._note(raw, mine, within)
        if within:
            if not self._same and any(id(p) in audit.reached for p in mine.values()):
                self._same.append(_Copy(mine, given, raw))
                audit.witness.looking = True
        elif not mine.keys() & given and not self._copies:
            held = audit.journal.held(stepped=True)
            if all(id(p) in held and id(p) in audit.reached for p in mine.values()):  # it is trained itself
                self._copies.append(_Copy(mine, given, raw))
                audit.witness.looking = True

    def _note(self, raw: Any, mine: dict[int, Any], within: bool) -> None:
        """A place copies; ``within``: into the network that it copies from. Told is one that does so again and again,
        after it has copied between two networks, or although nothing trains the one that it copies.
        """
        audit = self._audit
        user = [f for f in self._frames(raw) if f.user]
        if not user:
            return
        place = (user[-1].file, user[-1].line)
        if not within:
            self._between[place] = 0
            return
        ids = set(map(id, mine.values()))
        rests = ids.isdisjoint(audit.journal.held()) and ids.isdisjoint(audit.reached)
        counted = self._between if place in self._between else self._resting if rests else {}
        counted[place] = counted.get(place, 0) + 1
        if counted[place] == OFTEN:
            self._tell("same-network", user, None, mine.values(), 0, {"rests": rests})

    def follows(self, mine: list[Any], others: list[Any]) -> None:
        """An average has moved ``mine`` towards ``others``, which are of the same shapes."""
        audit = self._audit
        own = {s: p for p in mine if (s := storage_of(p)) is not None}
        source = {s for p in others if (s := storage_of(p)) is not None}
        if not self._found and not self._copies and own and source and not own.keys() & source:
            self._copies.append(_Copy(own, source, None))
            audit.witness.looking = True

    def called(self, call: EngineCall) -> None:
        if self._found:
            return
        self._look_beside(call)
        for copy in [*self._same]:
            twice = _is_used_twice(call, {*map(id, copy.alive())})  # once as the goal
            if twice is None:
                continue
            copy.looks += 1
            if twice or copy.looks >= MOST_LOOKS:
                self._same.clear()
                self._audit.witness.looking = bool(self._copies)
            if twice:
                self._tell("same-network", copy.stack, None, copy.alive(), call.noted[0])
        for copy in self._copies:
            memory = {storage_of(p) for p in call.leaves.values()}
            if not (memory >= copy.own.keys() and memory & copy.source):
                continue
            node = _entering(call.order, copy)
            kept = stacks.stack_of(node) if node is not None else None
            if kept is not None:
                self._tell("target-trained", kept, copy.stack, copy.alive(), call.noted[0])
            if kept is not None or node is None:
                self._copies.clear()
                self._audit.witness.looking = bool(self._same) if node is None else self._audit.unheld.waits
                return

    def _look_beside(self, call: EngineCall) -> None:
        """Whether the loss reached a second network, and reaches the trained one in its place since that is gone."""
        audit, kind = self._audit, self._audit.torch.nn.Parameter
        beside = self._beside
        if (beside is None and self._tries >= OFTEN) or (beside is not None and beside() is not None):
            return  # none is looked for any more, or it is still there
        held = audit.journal.held() & call.leaves.keys()
        if beside is None:
            every = {i: p for i, p in call.leaves.items() if type(p) is kind}
            mine, others = ({i: p for i, p in every.items() if (i in held) == one} for one in (True, False))
            if others and _shapes(mine) == _shapes(others):
                self._tries += 1
                audit.snapshot()
                self._was = audit.named(others)
                self._beside = Ref(next(iter(others.values())), self._look_on) if self._was else None
        elif held:
            twice = bool(_is_used_twice(call, held))
            self._gone = self._gone + 1 if twice else -1
            if self._gone == OFTEN:
                self._tell("became-network", call.noted, None, [call.leaves[i] for i in held], call.noted[0])
                self._found[0].facts["was"] = self._was
            if not 0 <= self._gone < OFTEN:
                self._beside = None
                audit.witness.looking = self.waits or audit.unheld.waits

    def _look_on(self, _gone: Any) -> None:
        self._audit.witness.looking = True

    def _tell(self, kind: str, at: At, other: At, mine: Iterable[Any], event: int, facts: Any = None) -> None:
        sign = self._sign(kind, at, other, map(id, mine), event=event, count=1)
        sign.facts = facts or {"stops": sign.parameters if kind == "target-trained" else []}
        self._report(sign)


def _shapes(parameters: dict[int, Any]) -> list[Any]:
    return sorted(tuple(p.shape) for p in parameters.values())


def _is_used_twice(call: EngineCall, mine: set[int]) -> bool | None:
    """Whether this loss takes each of these leaves (ids) more than once; None where it reaches none of them."""
    if not mine & call.leaves.keys():
        return None
    used = Counter(call.order.targets)
    uses = [used[n] for n, leaf in call.order.leaves.items() if id(leaf) in mine]
    return bool(uses) and min(uses) > 1


def _entering(order: walk.Graph, copy: _Copy) -> Any:
    """The node by which what depends on the copied network alone enters a value that depends on its source too.

    None where the loss is a sum with a term of the copied network's own, which is there to train it.
    """
    memory = {n: storage_of(leaf) for n, leaf in order.leaves.items()}
    own = {n: 1 if s in copy.own else 2 for n, s in memory.items() if s in copy.own or s in copy.source}
    bits = walk.gather(order, own.items())
    values = []
    for found in (f for f in order if bits[f.number] == 3):
        entering = [m for m in found.following if bits[m] == 1]
        numbers = all(is_number(order.nodes[m]) for m in found.following)
        if entering and numbers and type(found.node).__name__ in SUMS:
            return None
        values += [order.nodes[m] for m in entering]
    return values[0] if values else None


# Networks that an average moves after another one, step by step, without ever being loaded from it. Told from the
# numbers: between a step and the next backward call some parameters move, each by the same part of its distance from
# another parameter of its shape. Whether a loss trains them meanwhile, ``targets`` looks at.

MOST_PARAMETERS = 400
MOST_TRIES = 3
"""Times that the numbers are compared."""
VALUES = 8
"""Numbers of a parameter that are read."""
_NEAR = 0.01
"""How far a parameter may lie off the straight way, and one part differ from another, by rounding."""


class Followers(Early):
    """Hands what it finds to ``Targets``; it has nothing to tell by itself."""

    def set_up(self) -> None:
        self._versions: dict[int, tuple[Any, int]] = {}
        """Of the parameters of optimizers, as their latest step has left them."""
        self._suspects: set[int] = self._journal.living.forgetting(set())
        """Those that something else than a step has written to."""
        self._values: dict[int, tuple[Any, list[float]]] = {}
        self._tries = 0

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if self._tries >= MOST_TRIES:
            return
        kind = self._audit.torch.nn.Parameter
        mine = [p for p in parameters_of(optimizer)[: MOST_PARAMETERS + 1] if type(p) is kind and p.requires_grad]
        if len(mine) > MOST_PARAMETERS:
            return
        for p in mine:
            self._versions[id(p)] = Ref(p), p._version
        if self._suspects:
            known = ((self._versions[i][0](), i) for i in self._suspects if i in self._versions)
            shapes = {p.shape for p, _ in known if p is not None}
            for p in mine:
                if p.shape in shapes and is_readable(p):
                    self._values[id(p)] = Ref(p), self._read(p)

    def written(self, parameters: list[Any]) -> None:
        """These have moved since the latest step, though no version tells."""
        if self._tries < MOST_TRIES:
            self._suspects.update(id(p) for p in parameters)

    def called(self, call: EngineCall) -> None:
        if not self._versions:
            return
        if self._values:
            self._compare(call.leaves)
        for ident, (ref, version) in self._versions.items():
            p = call.leaves.get(ident)
            if p is not None and ref() is p and p._version != version:
                self._suspects.add(ident)
        self._versions.clear()
        self._values.clear()

    def _read(self, parameter: Any) -> list[float]:
        return [float(v) for v in some_of(parameter.detach(), VALUES)[:VALUES].tolist()]

    def _compare(self, leaves: dict[int, Any]) -> None:
        moved: list[tuple[Any, list[float], list[float]]] = []
        still: list[tuple[Any, list[float]]] = []
        alive = ((ident, p, old) for ident, (ref, old) in self._values.items() if (p := ref()) is not None)
        for ident, p, old in alive:
            new = self._read(p) if is_readable(p) else None
            if new == old:
                still.append((p, old))
            elif new is not None and ident in leaves:
                moved.append((p, old, new))
        if not moved:
            return
        self._tries += 1
        pairs: list[tuple[Any, Any]] = []
        part = 0.0
        for p, old, new in moved:
            for q, there in still:
                found = _part(old, new, there) if q.shape == p.shape else 0.0
                if found and (not part or abs(found - part) <= _NEAR * part):
                    pairs.append((p, q))
                    part = part or found
                    break
            else:
                return
        self._tries = MOST_TRIES
        self._audit.targets.follows([p for p, _ in pairs], [q for _, q in pairs])


def _part(old: list[float], new: list[float], there: list[float]) -> float:
    """Which part of the way from ``old`` to ``there`` leads to ``new``, less than the whole: a parameter that is set to
    another one may be tied to it. 0 where none does."""
    way = [b - a for a, b in zip(old, there, strict=True)]
    done = [b - a for a, b in zip(old, new, strict=True)]
    length = sum(w * w for w in way)
    if not length:
        return 0.0
    part = sum(w * d for w, d in zip(way, done, strict=True)) / length
    off = sum((d - part * w) ** 2 for w, d in zip(way, done, strict=True))
    near = off <= _NEAR**2 * sum(d * d for d in done)
    return part if near and 0.0 < part < 1.0 - _NEAR and len(old) > 1 else 0.0


# States that were kept without a copy: to load one later writes each tensor into itself.

MOST_GIVEN = 200
"""States that are followed at a time, by two tensors of each."""


class _Given:
    """One tensor of a state that ``state_dict()`` has handed out, and how far the run had come by then."""

    __slots__ = ("now", "ref", "stack", "steps", "version")

    def __init__(self, tensor: Any, stack: Any, now: int, steps: dict[int, int]) -> None:
        self.ref, self.version = Ref(tensor), tensor._version
        self.stack, self.now, self.steps = stack, now, steps


class Restored(Watch):
    """``restored-itself``: ``stack`` loads a state that ``other`` had taken from the same module, and each tensor of it
    is still the module's own. In between the ``parameters`` were changed: by a step of ``optimizer``, or
    (``facts["by"]``) by a load of other numbers."""

    def set_up(self) -> None:
        self._given: dict[int, _Given] = {}
        """By the id of the tensor."""
        self._loads = 0
        self._replaced: dict[int, int] = {}
        """By module: the latest load that brought other numbers."""
        self._brought = set[Any]()
        """Places of loads, as the user's lines that lead there, that have brought other numbers."""

    def given(self, state: Any) -> None:
        """A module's ``state_dict()`` is about to return ``state``."""
        if len(self._given) > 2 * MOST_GIVEN:
            self._given = {i: g for i, g in self._given.items() if g.ref() is not None}
        tensors = self._tensors(state)
        if not tensors or len(self._given) > 2 * MOST_GIVEN:
            return
        steps = {seen.id: seen.steps for seen in self._journal.optimizers.values()}
        raw = stacks.stack_here(4)  # given < Audit.given < the inserted callback < the function
        for t in (tensors[0], tensors[-1]):
            self._given[id(t)] = _Given(t, raw, self._loads, steps)

    def loaded(self, module: Any, state: Any, assign: bool) -> None:
        tensors = self._tensors(state)
        if not tensors or not self._given:
            return
        self._loads += 1
        audit = self._audit
        user = [f for f in self._frames(stacks.stack_here(4)) if f.user]
        if not user:
            return
        place = tuple((f.file, f.line) for f in user)
        own = dict(module.named_buffers(remove_duplicate=False))
        own.update(module.named_parameters(remove_duplicate=False))
        pairs = [(own.get(name), t) for name, t in state.items() if isinstance(t, audit.torch.Tensor)]
        if not all(_is_itself(*pair) for pair in pairs):
            self._replaced[id(module)] = self._loads
            self._brought.add(place)
            self._kept.pop(place, None)
            return
        ends = ((t, self._given.get(id(t))) for t in (tensors[0], tensors[-1]))
        taken = next((g for t, g in ends if g and t._version != g.version and g.ref() is t), None)
        if taken is None or place in self._kept or place in self._brought:
            return
        mine = {id(p) for p, _ in pairs}
        known = audit.journal.optimizers.values()
        since = (s for s in known if s.steps > taken.steps.get(s.id, 0))
        stepped = next((s.id for s in since if mine.intersection(s.parameters)), -1)
        if stepped < 0 and self._replaced.get(id(module), 0) <= taken.now:
            return
        further: dict[str, Any] = {"optimizer": stepped, "count": 1, "facts": {"by": "load" if stepped < 0 else "step"}}
        self._kept[place] = self._sign("restored-itself", user, taken.stack, mine, **further)
        audit.tell_early()

    def _tensors(self, state: Any) -> list[Any]:
        kinds = self._audit.torch.Tensor, self._audit.torch.nn.Parameter
        plain = (t for t in state.values() if type(t) in kinds) if isinstance(state, dict) else ()
        return [t for t in plain if t.is_floating_point() and has_memory(t) and not t.is_inference()]


def _is_itself(own: Any, given: Any) -> bool:
    """Whether to copy one into the other leaves every number where it is."""
    if own is None or own.shape != given.shape or own.dtype != given.dtype:
        return False
    if not has_memory(own) or not has_memory(given):
        return not given.numel()
    return bool(own.data_ptr() == given.data_ptr() and own.stride() == given.stride())


# Weights that were one parameter under several names, until a load with ``assign=True`` gave each name its own.


class Parted(Early):
    """``weights-parted``: ``stack`` is the load; an optimizer steps what the names in ``facts["names"]`` stand for now,
    ``parameters``, one by one."""

    def set_up(self) -> None:
        self._tied: list[tuple[Ref, list[str], Any]] = []
        """The module, the names of what was one parameter, and where it was loaded."""

    def loaded(self, module: Any, state: Any, assign: bool) -> None:
        if not assign:
            return
        names: dict[int, list[str]] = {}
        for name, p in module.named_parameters(remove_duplicate=False):
            names.setdefault(id(p), []).append(name)
        raw = stacks.stack_here(4)  # loaded < Audit.loaded < the inserted callback < the function
        several = [n for n in names.values() if len(n) > 1 and any(name in state for name in n)]
        self._tied += [(Ref(module), n, raw) for n in several[: MOST_LOOKS - len(self._tied)]]

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped: who ties the weights again after the load has done so by now."""
        tied, self._tied = self._tied, []
        held = {id(p) for p in parameters_of(optimizer)}
        for ref, names, raw in tied:
            module = ref()
            known = dict(module.named_parameters(remove_duplicate=False)) if module is not None else {}
            mine = {id(known[n]) for n in names if n in known}
            if len(mine) < 2 or not mine <= held:
                continue
            facts = {"names": names}
            self._report(self._sign("weights-parted", self._frames(raw), [], mine, optimizer=seen.id, facts=facts))
