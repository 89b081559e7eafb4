"""``requires_grad`` that is not what was meant: set on a module, misspelled, or off while the optimizer steps."""

from __future__ import annotations

import re
from itertools import islice
from types import FrameType
from typing import Any

from graphdoc.capture.audit.hidden import inside
from graphdoc.capture.audit.moved import memory_of
from graphdoc.capture.audit.watch import Early, Watch
from graphdoc.capture.events.journal import Seen
from graphdoc.capture.places.source_texts import COMPARED, lines_with, numbers_named
from graphdoc.capture.tensors.access_paths import own_attributes
from graphdoc.capture.tensors.facts import parameters_of, version_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.evidence import Sign

# Attributes that say the opposite of what parameters do: ``requires_grad`` of a module, which has no such attribute, so
# that setting one stores a bool and switches nothing; or a name that was to be ``requires_grad`` and is spelled
# otherwise, ``p.require_grad = False``: a tensor takes any attribute, and nothing reads this one. Looked at are what an
# optimizer holds and the modules that the frames around its first step hold, and ever more rarely those around later
# ones: a layer may be unfrozen, or frozen, on the way.

JUDGED = 3
"""The step of an optimizer, from the one that is looked at on, at which a flag that still contradicts is told."""
MOST_MODULES = 5_000
MOST_ENTRIES = 50
FLAG = "requires_grad"
_ALIKE = re.compile(r"_?requ[a-z]{1,5}_?grad(s|ient|ients)?", re.IGNORECASE)
OF_MODULE, MISSPELLED = "flag-of-module", "misspelled-flag"


class Flagged(Watch):
    """``flag-of-module``: ``facts`` has ``names``, the last words of the modules' names, and ``value``, their flag;
    ``parameters`` are those that do otherwise, and ``stops`` those of them that are meant to receive no gradient;
    ``elsewhere`` are files of the program that speak of the flag.
    ``misspelled-flag``: ``parameters`` carry ``facts["attribute"]`` with ``facts["value"]``, and do otherwise."""

    def set_up(self) -> None:
        self._first: dict[int, tuple[int, dict[Any, Any]]] = {}
        """By optimizer: the step at which such flags were seen, and which."""

    def wants(self, seen: Seen) -> bool:
        return seen.id in self._first

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has made a step at which flags are looked at, or another while some of them are followed."""
        since, first = self._first.get(seen.id, (0, {}))
        begins = not first and (seen.steps == 1 or seen.look == 2 * seen.steps) and not self._found
        if not begins and not (first and seen.steps >= since + JUDGED - 1):
            return
        found = self._flags({id(p): p for p in parameters_of(optimizer)})
        if begins:
            if found:
                self._first[seen.id] = seen.steps, {key: flag[:2] for key, flag in found.items()}
            return
        del self._first[seen.id]
        still = {key: flag for key, flag in found.items() if first.get(key) == flag[:2]}
        for kind in (OF_MODULE, MISSPELLED):
            mine = [flag for (of, _), flag in still.items() if of == kind]
            # Of modules the names differ, of parameters the attribute is one.
            same = [f for f in mine if f[1] is mine[0][1] and (kind == OF_MODULE or f[0] == mine[0][0])]
            if same and not (kind == MISSPELLED and any(s.kind == kind for s in self._found)):
                self._tell(kind, seen, same)

    def _flags(self, held: dict[int, Any]) -> dict[tuple[str, int], tuple[str, bool, list[Any]]]:
        """The flags that say the opposite of what every one of their parameters does, which this optimizer holds: by
        kind and id of the module or parameter the name, the value, and the parameters."""
        found = {}
        for name, module in modules_at_hand(self._audit.torch.nn.Module, self._audit.running()):
            flag, mine = module.__dict__.get(FLAG), inside(module)
            if type(flag) is bool and mine and all(id(p) in held and _contradicts(p, flag) for p in mine):
                found[OF_MODULE, id(module)] = name, flag, mine
        for ident, p in held.items():
            flags = (getattr(p, "__dict__", None) or {}).items()
            own = ((name, flag) for name, flag in flags if type(flag) is bool and flag is not p.requires_grad)
            name, flag = next(
                ((n, f) for n, f in own if type(n) is str and n != FLAG and _ALIKE.fullmatch(n)), ("", False)
            )
            if name and _contradicts(p, flag):
                found[MISSPELLED, ident] = name, flag, [p]
        return found

    def _tell(self, kind: str, seen: Seen, flags: list[tuple[str, bool, list[Any]]]) -> None:
        mine, value = {id(p) for *_, parameters in flags for p in parameters}, flags[0][1]
        sign = self._sign(kind, self._latest_step(seen), None, mine, optimizer=seen.id, count=seen.steps)
        files = lines_with(f".{FLAG}".encode(), self._audit.witness.cwd) if kind == OF_MODULE else []
        of_module = {"names": sorted({name for name, *_ in flags}), "elsewhere": files}
        about: dict[str, Any] = of_module if kind == OF_MODULE else {"attribute": flags[0][0]}
        sign.facts = {**about, "value": value, "stops": [] if value else sign.parameters}
        self._report(sign)


def _contradicts(parameter: Any, flag: bool) -> bool:
    """Whether a parameter does the opposite; one that was to be frozen has a gradient by now."""
    return parameter.requires_grad is not flag and (flag or parameter.grad is not None)


def modules_at_hand(module: type, running: list[FrameType]) -> list[tuple[str, Any]]:
    """The modules that are held by a local name of these functions, by an attribute of an object or an entry of a
    dictionary of such a name, or lie inside of those, each once and by its own name. Calls nothing that a class may
    override."""
    found: dict[int, tuple[str, Any]] = {}
    for frame in running:
        todo: list[tuple[Any, Any]] = []
        for name, value in list(frame.f_locals.items()):
            held = value if type(value) is dict else own_attributes(value)
            todo += [(name, value)] if issubclass(type(value), module) else islice(held.items(), MOST_ENTRIES)
        todo = [(str(name), root) for name, root in todo if issubclass(type(root), module)][::-1]
        while todo and len(found) < MOST_MODULES:
            name, value = todo.pop()
            if value is not None and id(value) not in found:
                found[id(value)] = name, value
                todo += (value.__dict__.get("_modules") or {}).items()
    return list(found.values())


class Shared(Early):
    """``suspect-shared``, weak: parameters of modules lie in one place of the memory, so that what is written there for
    one is what another is differentiated with. Asked once, behind an optimizer's second step."""

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.steps != 2 or self._found:
            return
        lying: dict[int, int] = {}
        for _, module in modules_at_hand(self._audit.torch.nn.Module, self._audit.running()):
            for p in (module.__dict__.get("_parameters") or {}).values():
                if p is not None and (memory := memory_of(p)) and lying.setdefault(memory, id(p)) != id(p):
                    self._found = [Sign("suspect-shared", optimizer=seen.id, count=1, weak=True)]
                    return


# Parameters that are frozen while their optimizer steps: since its first step, or again after they were trained.

AGAIN = 3
"""Steps of the last phase before it is judged."""
MOST_CHANGES = 3
MOST_COUNTED = 100
"""Parameters of which it is seen whether anything writes to them."""


class _Followed:
    """One frozen parameter in the place of all: which way it was switched last, how often, and the steps since."""

    __slots__ = ("before", "changes", "event", "on", "ref", "since", "told", "trained", "version")

    def __init__(self, parameter: Any, version: int, before: dict[int, int]) -> None:
        self.ref = Ref(parameter)
        self.version = version
        self.before = before
        """Steps that frozen ones had made when their state was saved, by id, where they had joined the others later."""
        self.on = False
        self.trained = False
        self.told = False
        self.changes = self.since = 0
        self.event = -1


class Refrozen(Watch):
    """``frozen-again``: ``parameters`` take no part any more; ``stack`` is a step that leaves them out. Whether it is
    meant, the source has to tell. ``frozen-throughout``: they never took part; weak, for so is many a backbone.
    Not where no optimizer holds anything else, so that nothing learns: ``facts["reaches"]`` are the parameters that get
    gradients, if any do. Nor where an optimizer holds nothing at all (no ``parameters``). ``facts["before"]``: how many
    steps the state that was loaded has of them, where the others had made more: they were unfrozen on the way then;
    ``facts["numbers"]`` are the whole numbers that the program compares, by their names."""

    def set_up(self) -> None:
        self.followed: dict[int, _Followed] = {}
        """By optimizer; those that held nothing frozen at their first step are not in it."""
        self._told: dict[int, tuple[_Followed, Sign]] = {}
        self._empty: dict[int, tuple[Seen, Sign]] = {}
        """Of optimizers that held nothing after a few steps; a group may be added later."""

    def wants(self, seen: Seen) -> bool:
        followed = self.followed.get(seen.id)
        return followed is not None and followed.changes <= MOST_CHANGES

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.steps == 1:
            every = list(parameters_of(optimizer))
            frozen = next((p for p in every if not p.requires_grad), None)
            if frozen is not None:
                before = _joined_late(optimizer, every)
                self.followed[seen.id] = _Followed(frozen, _version(every), before)
            return
        if seen.steps == 1 + AGAIN and not parameters_of(optimizer):
            sign = self._sign("frozen-throughout", self._latest_step(seen), optimizer=seen.id, count=AGAIN, weak=True)
            sign.facts["whole"] = True
            self._empty[seen.id] = seen, sign
        followed = self.followed.get(seen.id)
        parameter = followed.ref() if followed is not None else None
        if followed is None or parameter is None or followed.changes > MOST_CHANGES:
            return
        followed.since += 1
        if parameter.requires_grad is not followed.on:
            followed.on = parameter.requires_grad
            followed.changes += 1
            followed.since = 0
            followed.event = self._journal.count
        if followed.on:
            followed.trained = followed.trained or parameter.grad is not None
        elif followed.changes == 2 and followed.trained and followed.since == AGAIN and not followed.told:
            followed.told = True
            self._tell(optimizer, seen, followed, "frozen-again")
        elif not followed.changes and followed.since == AGAIN:
            self._tell(optimizer, seen, followed, "frozen-throughout")

    def _tell(self, optimizer: Any, seen: Seen, followed: _Followed, kind: str) -> None:
        every = list(parameters_of(optimizer))
        mine = [id(p) for p in every if not p.requires_grad]
        before = {i: n for i, n in followed.before.items() if i in mine and kind == "frozen-throughout"}
        mine = [*before] or mine
        sign = self._sign(kind, self._latest_step(seen), None, mine, weak=kind == "frozen-throughout")
        # Gradients, or numbers, that are put there by hand move what is frozen as well.
        still = all(p.grad is None for p in every) and _version(every) == followed.version
        sign.facts["whole"] = len(mine) == len(every) and still
        if before:
            sign.facts["before"] = max(before.values())
            sign.facts["numbers"] = numbers_named(COMPARED, self._audit.running())
        sign.optimizer, sign.event, sign.count = seen.id, followed.event, AGAIN
        self._told[seen.id] = (followed, sign)
        if not sign.weak:
            self._audit.tell_early()

    def signs(self) -> list[Sign]:
        """Those that stayed so: who takes turns is heard of no more."""
        changes = {"frozen-again": 2, "frozen-throughout": 0}
        told = {i: sign for i, (followed, sign) in self._told.items() if followed.changes == changes[sign.kind]}
        told |= {i: sign for i, (seen, sign) in self._empty.items() if not any(map(parameters_of, seen.known()))}
        stepping = [seen.id for seen in self._journal.optimizers.values() if seen.steps]
        reached = self._audit.named(self._audit.reached)
        called = self._journal.latest("backward") is not None
        if called and all(i in told and told[i].facts["whole"] for i in stepping):
            for sign in told.values():
                sign.weak, sign.facts["reaches"] = False, reached
        return list(told.values())


def _version(parameters: list[Any]) -> int:
    """How often the first of these were written to."""
    return sum(version_of(p) for p in parameters[:MOST_COUNTED])


def _joined_late(optimizer: Any, parameters: list[Any]) -> dict[int, int]:
    """How many steps the optimizer's state has of frozen parameters, by id, where it has more of all others: it was
    loaded, and they had been trained for a part of the time. Behind the first step; nothing is asked of a GPU."""
    frozen: dict[int, int] = {}
    others: list[int] = []
    for p in parameters:
        steps = (optimizer.state.get(p) or {}).get("step", 0)
        known = isinstance(steps, int | float) or bool(getattr(steps, "is_cpu", False))
        if p.requires_grad and p.grad is not None:
            others.append(int(steps) - 1 if known else 0)
        elif not p.requires_grad and known and int(steps) > 0:
            frozen[id(p)] = int(steps)
    return frozen if frozen and others and max(frozen.values()) < min(others) else {}
