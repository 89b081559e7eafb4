"""Parameters that are replaced in their optimizer between backward and step, and loads that a step takes back."""

from __future__ import annotations

import weakref
from typing import Any

from graphdoc.capture.audit.watch import EngineCall, Watch
from graphdoc.capture.events.journal import MOST_OPTIMIZERS, Noted, Seen
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import optimizer_functions, site_of
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import numbers_of, some_of
from graphdoc.evidence import Sign

MOST_COMPARED = 50
"""Parameters of an optimizer that are told from those before."""
MOST_STEPS = 500
"""Steps of an optimizer that are looked at one by one, once its parameters have been replaced."""


class _Held:
    """What one optimizer held at its latest step, and whether that has been ``replaced`` while it trains."""

    def __init__(self) -> None:
        self.left = MOST_STEPS
        self.held: list[Ref] = []
        self.replaced = False
        self.call: tuple[Noted, list[Ref]] | None = None
        """The latest backward call since its latest step, and what it held as that began."""
        self.fed: set[Any] = set()
        """The places of such calls that gave gradients to all that was stepped next."""
        self.times = 0


class Replaced(Watch):
    """``replaced-before-step``: ``optimizer`` held other parameters as the backward call ``other`` began than at its
    step, ``stack``; those are in no optimizer, and the new ones have no gradient. Between its other steps this call
    gave gradients to all. ``count`` such steps; ``facts["others"]``: it held some that found theirs."""

    def set_up(self) -> None:
        self._known: dict[int, _Held] = {}
        """By optimizer."""

    def wants(self, seen: Seen) -> bool:
        known = self._known.get(seen.id)
        return known is not None and known.replaced and known.left > 0

    def began(self, call: EngineCall) -> None:
        for ident, known in self._known.items():
            seen = self._journal.optimizers.get(ident)
            optimizer = seen.ref() if seen is not None and self.wants(seen) else None
            if optimizer is not None:
                known.call = call.noted, [Ref(p) for p in parameters_of(optimizer)[:MOST_COMPARED]]

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        mine = parameters_of(optimizer)[:MOST_COMPARED]
        if len(self._known) > MOST_OPTIMIZERS:  # a program may make one for each of its steps
            self._known = {i: known for i, known in self._known.items() if i in self._journal.optimizers}
        known = self._known.setdefault(seen.id, _Held())
        if len(known.held) != len(mine) or any(ref() is not p for ref, p in zip(known.held, mine, strict=True)):
            known.replaced |= bool(known.held)
            known.held = [Ref(p) for p in mine]
        if known.call is None:
            return
        noted, held = known.call
        known.call, known.left = None, known.left - 1
        place = site_of(stacks.stack_of_seen(noted[3]))
        there = {id(p) for ref in held if (p := ref()) is not None}
        new = [p for p in mine if id(p) not in there]
        if not new:
            if all(p.grad is not None for p in mine):
                known.fed.add(place)
        elif place in known.fed and all(p.grad is None for p in new) and self._are_left(noted, held, seen):
            known.times += 1
            others = len(new) < len(mine)
            self._so_often(known.times, seen, lambda: self._tell(noted, new, seen, others))

    def _are_left(self, noted: Noted, held: list[Ref], seen: Seen) -> bool:
        """Whether none of what was held is in an optimizer now but what still is in this one, and nothing has cleared
        this one since. What is gone has no gradient; what is alive still has it."""
        journal = self._journal
        if optimizer_functions(stacks.stack_of_seen(noted[3])):
            return False  # the step calls backward itself
        if any(e.kind == "zero_grad" and e.optimizer == seen.id for e in journal.entries(noted[0])):
            return False
        given = {id(p) for _, o in journal.live() for p in parameters_of(o)}
        gone = [p for ref in held if (p := ref()) is None or id(p) not in given]
        return bool(gone) and all(p is None or p.grad is not None for p in gone)

    def _tell(self, noted: Noted, new: list[Any], seen: Seen, others: bool) -> Sign | None:
        sign = self._sign_of_step("replaced-before-step", seen, new)
        if sign is not None:
            sign.other, sign.facts = self._frames(noted), {"others": others}
        return sign


# Values that were loaded into a model, and that the first step puts back to what they were: the optimizer steps copies
# of its own, in 32 bits say, which were made before the load, and are written into the model after each step.

MOST_LOADS = 20
MOST_SAMPLED, MOST_NUMBERS = 12, 64
"""Parameters of a model that are compared, and numbers of each."""
NEAR = 0.25
"""How far from what they were, in parts of the way to what was loaded, they may be at most."""


class _Load:
    """One load into a model: the numbers of some of its parameters before, and once they had been loaded."""

    def __init__(self, module: Any, made: list[Any], raw: stacks.Stack) -> None:
        every = [p for p in module.parameters() if p.requires_grad and p.is_floating_point()]
        self.size = sum(p.numel() for p in every)
        self.refs = [Ref(p) for p in every[:: len(every) // MOST_SAMPLED + 1]]
        self.module, self.raw = id(module), raw
        self.made = [weakref.ref(o) for o in made]
        """The optimizers that there were, and had not stepped yet."""
        self.before = self.read()
        self.loaded: list[Any] = []
        self.seen: Seen | None = None
        """The optimizer that has stepped since."""

    def read(self) -> list[Any]:
        found = (numbers_of(p) if (p := ref()) is not None else None for ref in self.refs)
        return [some_of(n, MOST_NUMBERS).double().clone() if n is not None else None for n in found]

    def changes(self) -> bool:
        """Whether it has brought other numbers."""
        return bool(_apart(self.before, self.loaded))

    def is_taken_back(self) -> bool:
        now = self.read()
        old, new = _apart(now, self.before), _apart(now, self.loaded)
        return old is not None and new is not None and old < NEAR * new


def _apart(some: list[Any], others: list[Any]) -> float | None:
    """How far these numbers are from others, all in all; None where some cannot be read or have another shape."""
    pairs = list(zip(some, others, strict=True))
    if not pairs or any(a is None or b is None or a.shape != b.shape for a, b in pairs):
        return None
    return sum(float((a - b).abs().sum()) for a, b in pairs)


class LoadTakenBack(Watch):
    """``load-taken-back``: ``stack`` loads ``parameters``, a backward call reaches them, and after the first step of
    ``optimizer`` they are what they were before the load. It was made before that, and holds none of them, but as many
    numbers, which no backward call reaches."""

    def set_up(self) -> None:
        self._loads: list[_Load] = []

    def loaded(self, module: Any, state: Any, assign: bool) -> None:
        if assign or any(load.module == id(module) and load.seen is not None for load in self._loads):
            return  # that may be what takes it back
        self._loads = [load for load in self._loads if load.module != id(module)]
        made = [o for o, seen in self._journal.made() if seen is None or not seen.steps]
        if not self._found and made and self._may_look(MOST_LOADS):
            # loaded < Audit.loaded < the inserted callback < the function
            self._loads.append(_Load(module, made, stacks.stack_here(4)))
            self._audit.unheld.look_again()
            self._audit.wake()

    def began(self, call: EngineCall) -> None:
        for load in [*self._loads]:
            if not load.loaded:
                load.loaded = load.read()
                if not load.changes():
                    self._loads.remove(load)
            elif load.seen is not None:
                self._loads.remove(load)
                if load.is_taken_back():
                    self._tell(load, load.seen)

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        loads = [load for load in self._loads if load.loaded and any(ref() is optimizer for ref in load.made)]
        if seen.steps != 1 or not loads:
            return
        given, had, held = self._journal.held(), self._audit.reached, parameters_of(optimizer)
        size = 0 if any(id(p) in had for p in held) else sum(p.numel() for p in held)
        for load in loads:
            own = [p for ref in load.refs if (p := ref()) is not None]
            apart = not any(id(p) in given for p in own) and all(p.grad is not None or id(p) in had for p in own)
            load.seen = seen if apart and size >= load.size else None

    def _tell(self, load: _Load, seen: Seen) -> None:
        own = [id(p) for ref in load.refs if (p := ref()) is not None]
        self._report(self._sign("load-taken-back", load.raw, None, own, optimizer=seen.id, count=1))
