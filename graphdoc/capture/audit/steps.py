"""Optimizers that never step, or never find a gradient, or make steps of which nothing is left."""

from __future__ import annotations

import itertools
import sys
from inspect import signature
from typing import Any

from graphdoc.capture.audit.moved import print_of, values_of
from graphdoc.capture.audit.unheld import are_twins, in_their_place
from graphdoc.capture.audit.watch import ENOUGH, FEW, Early, EngineCall, Open, Watch
from graphdoc.capture.events.journal import Entry, Noted, Place, Seen
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import optimizer_functions, site_of
from graphdoc.capture.places.source_texts import REMAINDER, lines_with, numbers_named
from graphdoc.capture.tensors.facts import (
    grad_fn_of,
    has_gradient,
    held_by,
    instances_of,
    is_hooked,
    parameters_of,
    steps_alone,
    version_of,
)
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import Sample, numbers_of
from graphdoc.evidence import AT_END, Sign

MOST_SAMPLED = 50
"""Parameters whose numbers are looked at, twice in a run."""


class Unstepped(Watch):
    """``step-missing``: ``stack`` is the backward call whose gradients no optimizer uses, ``other`` the call of
    ``zero_grad`` that throws those of this optimizer away. ``facts["alone"]``: they are for this optimizer only;
    ``facts["shared"]``: others step by this loss, too, and it may be theirs alone; ``facts["elsewhere"]`` are files of
    the program that speak of gradients. ``facts["calls"]`` counts the calls from there; ``facts["numbers"]`` are whole
    numbers of which the program takes remainders, by their names. ``facts["kept"]``: nothing was cleared in the run, or
    stepped; only the source can tell that this is not meant."""

    def set_up(self) -> None:
        self._discards: dict[int, int] = {}
        self._values: dict[int, dict[int, Any]] = {}
        """What those that had gradients held when such an optimizer was first cleared."""
        self._calls: dict[int, tuple[Seen, Place]] = {}
        """By optimizer: where the call is made whose gradients are thrown away."""
        self._early: list[tuple[int, bool, int]] = []
        """The first calls while nothing was cleared or stepped: how many leaves each had, whether it adds to what they
        have, and their versions."""
        self._never: Sign | None = None

    def called(self, call: EngineCall) -> None:
        journal, leaves = self._journal, call.leaves
        if self._never is not None or journal.steps or self._discards or not leaves:
            return
        added = all(t.grad is not None for t in leaves.values()) or not self._early
        self._early.append((len(leaves), added, sum(version_of(t) for t in leaves.values())))
        if len(self._early) <= FEW:
            return
        holding = [(o, s) for o, s in journal.made() if any(id(p) in leaves for p in parameters_of(o))]
        mine = {id(p) for o, _ in holding for p in parameters_of(o)}
        if len(holding) != 1 or len({*self._early}) != 1 or not added or self._is_for_others(list(leaves.values())):
            self._early.clear()  # updated by hand, perhaps
            return
        optimizer, seen = holding[0]
        seen = seen or journal.optimizer(optimizer)
        sign = self._sign("step-missing", call.noted, None, mine & leaves.keys(), optimizer=seen.id)
        self._calls[seen.id] = seen, journal.entry_of(call.noted, journal.entries(), False).place
        sign.facts = {"alone": leaves.keys() <= mine, "shared": False, "kept": True, AT_END: True, **self._asked()}
        self._never = sign

    def _asked(self) -> dict[str, Any]:
        """What the source is asked with."""
        numbers = numbers_named(REMAINDER, self._audit.running())
        return {"elsewhere": lines_with(b".grad", self._audit.witness.cwd), "numbers": numbers}

    def _is_for_others(self, leaves: list[Any]) -> bool:
        """Whether a scaler may leave steps out as long as gradients overflow, or a hook takes what the calls give."""
        hooked = any(m.__dict__.get("_backward_hooks") for m in instances_of(self._audit.torch.nn.Module))
        return self._audit.witness.scaler.used or hooked or any(map(is_hooked, leaves))

    def zeroed(self, optimizer: Any, seen: Seen, here: stacks.Stack) -> None:
        count = self._discards.get(seen.id, 0)
        if seen.steps or count >= ENOUGH:
            return
        parameters = parameters_of(optimizer)
        if not any(p.grad is not None for p in parameters):
            return
        if count == 0:
            self._values[seen.id] = self._sampled(parameters)
        self._discards[seen.id] = count + 1
        seen.span = (seen.span[0], self._journal.steps)
        self._so_often(count + 1, seen, lambda: self._judge(parameters, seen, here))

    def _sampled(self, parameters: list[Any]) -> dict[int, Any]:
        """What each parameter that a step could move holds, by id: a program that updates them by itself may do so by
        ``.data``, of which the version counter knows nothing."""
        given = (p for p in parameters if p.grad is not None)
        return {id(p): values_of(p) or version_of(p) for p in itertools.islice(given, MOST_SAMPLED)}

    def _judge(self, parameters: list[Any], seen: Seen, here: stacks.Stack) -> Sign | None:
        audit = self._audit
        before, now = self._values[seen.id], self._sampled(parameters)
        if not before.keys() & now.keys() or any(now.get(i, value) != value for i, value in before.items()):
            return None  # they are updated by hand
        if self._is_for_others(parameters):
            return None
        mine = {id(p) for p in parameters}
        entries = list(audit.journal.entries())
        own = [e for e in entries if e.kind == "backward" and e.reaches and e.reaches <= mine]
        alone = bool(own)
        own = own or self._unused(entries, mine, self._discards[seen.id] - 1)
        shared = not own
        own = own or [e for e in entries if e.kind == "backward" and e.reaches and e.reaches & mine]
        if not own or optimizer_functions(own[-1].raw):
            return None  # a step with a closure is under way
        self._calls[seen.id] = seen, own[-1].place
        sign = self._sign("step-missing", own[-1], here, mine, optimizer=seen.id, event=audit.journal.count)
        sign.facts = {"alone": alone, "shared": shared, **self._asked()}
        return sign

    def _unused(self, entries: list[Entry], mine: set[int], least: int) -> list[Entry]:
        """The backward calls from one place that reach these parameters among others, and of which no step has used
        anything: each optimizer that stepped behind one had been cleared first.
        """
        held = {s.id: {id(p) for p in parameters_of(o)} for s, o in self._journal.live()}
        found: dict[Place, list[Entry]] = {}
        used: set[Place] = set()
        for at, e in enumerate(entries):
            if e.kind == "backward" and e.may_reach(mine):
                found.setdefault(e.place, []).append(e)
                if e.reaches is None or _used(e.reaches, entries[at + 1 :], held):
                    used.add(e.place)
        left = [calls for place, calls in found.items() if place not in used and len(calls) >= least]
        return left[0] if len(left) == 1 else []

    def signs(self) -> list[Sign]:
        journal = self._journal
        journal.settle()
        # Not only a module was cleared, and gradients came more often than that.
        few = self._at_end(lambda s: self._calls[s.id][1].occurrences > FEW and bool(journal.latest("zero_grad", s.id)))
        if self._never is not None and self._audit.over and not (journal.steps or self._discards):
            few.append(self._never)
        told = [sign for sign in [*self._found, *few] if not self._calls[sign.optimizer][0].steps]
        for sign in told:
            sign.facts["calls"] = self._calls[sign.optimizer][1].occurrences
        return told


def _used(reaches: frozenset[int], later: list[Entry], held: dict[int, set[int]]) -> bool:
    """Whether a step behind a backward call may have used its gradients: its optimizer was not cleared in between."""
    cleared: set[int] = set()
    for e in later:
        if e.kind == "zero_grad":
            cleared.add(e.optimizer)
        elif e.kind == "step" and e.optimizer not in cleared and held.get(e.optimizer, reaches) & reaches:
            return True
    return False


# Optimizers that step again and again and never find a gradient: no loss reaches what they are to train.

IN_VAIN = 5
"""Steps behind recorded graphs, and no backward call before any of them, before anything is said."""
MOST_LEAVES = 50
"""Leaves of a call that are told by name."""

_BACKWARD = ("backward", "grad")


class Starved(Open):
    """``starved``: ``stack`` is the step, ``other`` the backward call in front of it, ``count`` how many steps there
    were. ``facts["reaches"]`` names what this call reaches, ``facts["more"]`` counts what of it has no name.
    ``facts["no_call"]``: graphs were recorded between the steps, and no backward call was made at all;
    ``facts["losses"]``: names that single numbers with a graph have where the step is called.

    ``held-stale``, as ``Unheld`` tells it, where no module has what the optimizer holds and others get gradients in its
    place: FSDP2 replaces every parameter by its shard, and no backward call reaches a shard as a leaf."""

    def set_up(self) -> None:
        self._idle: dict[int, int] = {}
        """Of the others: steps behind a backward call."""
        self._held: dict[int, int] = {}
        """By optimizer that is not PyTorch's: what the first of its parameters held at its first step."""
        self._latest: tuple[Noted, int, list[Ref]] | None = None
        """The latest call that reached a leaf, how many it reached, and the first of them."""
        self._fresh: set[int] = set()
        """Optimizers that have stepped since the latest backward call."""
        self._made: dict[int, tuple[int, int]] = {}
        """Of optimizers that step before any backward call: how many nodes there were at the latest step, and the
        version of the first parameter."""
        self._alone: dict[int, int] = {}
        """Steps between which nodes were recorded, and before which no backward call was made."""
        self._gathered: set[int] = set()
        """Optimizers that hold what FSDP2 has gathered for a forward."""

    def called(self, call: EngineCall) -> None:
        self._fresh = set()
        known = self._journal.optimizers.values()
        if known and all(seen.id in self.over for seen in known):
            return
        first = itertools.islice(call.leaves.values(), MOST_LEAVES)
        self._latest = (call.noted, len(call.leaves), [Ref(t) for t in first]) if call.leaves else None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped. It is ``over`` for one that has found a gradient, or of whose parameters a backward
        call has reached one, and for one that is not PyTorch's and moves its parameters without."""
        mine = [p for p in parameters_of(optimizer) if p.requires_grad]
        had, reached = self._journal.with_grad, self._audit.reached
        has = any(p.grad is not None or had.get(id(p)) for p in mine)
        met = any(id(p) in reached for p in mine)
        if met and not has and seen.id not in self._gathered and "torch.distributed.fsdp._fully_shard" in sys.modules:
            # What FSDP2 gathers is a leaf of the graph, and never has the gradient that its shard is given.
            self._gathered |= {seen.id} if in_their_place(self._audit.torch, mine) else set()
        if has or (met and seen.id not in self._gathered) or self._moves(optimizer, seen):
            self.over.add(seen.id)
            self._found = [sign for sign in self._found if sign.optimizer != seen.id]
            self._few.pop(seen.id, None)
            return
        if not mine or seen.id in self._fresh:
            return
        if self._latest is None:
            self._without_call(optimizer, mine, seen)
            return
        self._fresh.add(seen.id)
        self._idle[seen.id] = self._idle.get(seen.id, 0) + 1
        latest = self._latest  # the first step may come before all others
        self._so_often(self._idle[seen.id] - 1, seen, lambda: self._in_vain(mine, seen, *latest))

    def _moves(self, optimizer: Any, seen: Seen) -> bool:
        """Whether an optimizer that is not PyTorch's moves its parameters by something else than gradients."""
        parameters = parameters_of(optimizer)
        own = type(optimizer).__module__.startswith("torch.optim")
        if own or self._idle.get(seen.id, 0) > ENOUGH or not parameters:
            return False
        held = print_of(parameters[0])
        return self._held.setdefault(seen.id, held) != held

    def _without_call(self, optimizer: Any, mine: list[Any], seen: Seen) -> None:
        """A step before any backward call. One that follows no recording at all is there for the scheduler."""
        if not type(optimizer).__module__.startswith("torch.optim") or optimizer._optimizer_step_post_hooks:
            return  # it may well step by something else, or by gradients that are gone now
        made, version = self._journal.nodes_made, mine[0]._version
        before, written = self._made.get(seen.id, (made, version))
        recorded = made > before and version == written  # who writes the weights by hand wants no gradient
        self._made[seen.id] = made, version
        self._alone[seen.id] = self._alone.get(seen.id, 0) + 1 if recorded else 0
        if self._alone[seen.id] == IN_VAIN and not self._journal.has(*_BACKWARD):
            self._so_often(ENOUGH, seen, lambda: self._in_vain(mine, seen, None, 0, []))

    def _in_vain(self, mine: list[Any], seen: Seen, noted: Noted | None, count: int, leaves: list[Ref]) -> Sign | None:
        audit = self._audit
        step = audit.journal.latest("step", seen.id)
        if step is None:
            return None
        audit.snapshot()
        gathered = seen.id in self._gathered
        given = noted is not None and (gathered or any(audit.journal.was_given(id(p)) for p in mine))
        new = in_their_place(audit.torch, mine) if given else {}
        twins = not any(id(p) in audit.names for p in mine) or are_twins(mine, new.values())
        if twins and new and new.keys() <= audit.names.keys():
            told: dict[str, Any] = {"parameters": audit.named(new), "optimizer": seen.id, "event": step.index}
            return self._sign_at("held-stale", noted, facts={"no_call": False, "gathered": gathered}, **told)
        named = audit.named(id(t) for ref in leaves if (t := ref()) is not None)
        facts = {"reaches": named, "more": count - len(named), "no_call": noted is None}
        running, kind = audit.running() if noted is None else [], audit.torch.Tensor
        near = [(n, t) for n, t in running[0].f_locals.items() if kind in type(t).__mro__] if running else []
        facts["losses"] = [n for n, t in near if t.numel() == 1 and grad_fn_of(t) is not None]
        names = audit.named(map(id, mine))
        return self._sign_at("starved", step, noted, parameters=names, optimizer=seen.id, facts=facts)

    def signs(self) -> list[Sign]:
        known = self._journal.optimizers
        told = [*self._found, *self._at_end(lambda _: not self.over)]
        for sign in told:
            sign.count = known[sign.optimizer].steps if sign.optimizer in known else sign.count
        told = told or self._alike()
        # A call that comes late is one: the steps before it were a warm-up.
        has = self._journal.has
        return [sign for sign in told if not (sign.facts["no_call"] and has(*_BACKWARD))]

    def _alike(self) -> list[Sign]:
        """One of several optimizers that one line has made, each for a few steps, if no other that it has made has ever
        found a gradient: an inner optimizer is made anew for each task."""
        if not self._audit.over:
            return []
        known = self._journal.optimizers
        fed = {site_of(s.stack) for i in self.over if (s := known.get(i)) is not None and s.stack is not None}
        at: dict[Any, list[tuple[Seen, Sign]]] = {}
        for seen, sign in self._few.values():
            if seen.stack is not None and site_of(seen.stack) not in fed:
                at.setdefault(site_of(seen.stack), []).append((seen, sign))
        one = next((found for found in at.values() if len(found) >= ENOUGH), None)
        if one is None:
            return []
        sign = one[-1][1]
        sign.count, sign.facts["alike"] = sum(seen.steps for seen, _ in one), len(one)
        return [sign]


# Steps of which nothing is left: the parameters have their old numbers again, or the learning rate is zero.

TAKEN_BACK = 3
"""Steps, each taken back, before a second run is asked who did it."""
MOST_STEPS = 12
VALUES = 4
"""Different numbers that the parameters hold at least: one that is held at its bound comes back to it as well."""
AT_REST = 8
"""Steps with a learning rate of zero, and none with another, before anything is said."""


class _Held:
    """The parameters of one optimizer that are read, and what they held."""

    def __init__(self, parameters: list[Any]) -> None:
        chosen = {id(p): p for p in (parameters[0], parameters[len(parameters) // 2], parameters[-1])}
        self.refs = [Ref(p) for p in chosen.values()]
        self.earlier: list[int] = []
        """Before the latest step."""
        self.before: list[int] = []
        """At the latest backward call."""
        self.after = self.read()
        self.times = 0

    def read(self) -> list[int]:
        return [print_of(p) if (p := ref()) is not None else 0 for ref in self.refs]

    def taken_back(self) -> bool:
        """Whether the latest step has moved all of them, and each has its old number again."""
        pairs = zip(self.after, self.before, strict=True)
        return self.before == self.earlier and all(a != b and a and b for a, b in pairs)


class Undone(Watch):
    """``suspect-undone``, weak: before each of its steps the parameters of an optimizer were, bit by bit, what they had
    been before the step before. A second run tells who has put them back."""

    def set_up(self) -> None:
        self._held: dict[int, _Held | None] = {}
        """By optimizer; None once it has been seen to get on."""

    def began(self, call: EngineCall) -> None:
        for held in self._held.values():
            if held is not None:
                held.before = held.read()

    def wants(self, seen: Seen) -> bool:
        return self._held.get(seen.id) is not None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.id not in self._held:
            mine = [p for p in parameters_of(optimizer) if p.grad is not None and print_of(p)]
            self._held[seen.id] = _Held(mine) if mine else None
            return
        held = self._held[seen.id]
        if held is None or not held.before:
            return
        back = held.taken_back() if held.earlier else True
        held.times += bool(held.earlier)
        held.earlier, held.before, held.after = held.before, [], held.read()
        if not back or seen.steps > MOST_STEPS:
            self._held[seen.id] = None
        elif held.times == TAKEN_BACK:
            self._held[seen.id] = None
            numbers = [n for ref in held.refs if (n := numbers_of(ref())) is not None]
            differ = sum(int(n.unique().numel()) for n in numbers) >= VALUES
            if differ:
                self._found.append(Sign("suspect-undone", optimizer=seen.id, count=TAKEN_BACK, weak=True))


class AtRest(Open):
    """``rate-zero``: ``stack`` is the step, ``count`` how many there were, each with a learning rate of zero;
    ``facts["rate"]`` is what the program asked for. One that is made with a rate of zero is its author's word."""

    def set_up(self) -> None:
        self._steps: dict[int, int] = {}

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        still = all(group.get("lr") == 0.0 for group in optimizer.param_groups)
        asked, sign = _asked(optimizer) if still else 0.0, self._kept.get(seen.id)
        if not asked:
            self.over.add(seen.id)
            self._kept.pop(seen.id, None)
            return
        steps = self._steps[seen.id] = self._steps.get(seen.id, 0) + has_gradient(optimizer)
        if steps == AT_REST and sign is None:
            sign = self._sign_of_step("rate-zero", seen, [p for p in parameters_of(optimizer) if p.grad is not None])
            if sign is not None:
                self._kept[seen.id], sign.facts = sign, {"rate": asked}
                self._audit.tell_early()
        if sign is not None:
            sign.count = steps


def _asked(optimizer: Any) -> float:
    """The largest learning rate that the program has asked for: a scheduler keeps it (``initial_lr``), and an optimizer
    what it was made with, unless that is what it has of itself; 0 where it is no plain number."""
    rate, own = optimizer.defaults.get("lr"), signature(type(optimizer)).parameters.get("lr")
    given = None if own is not None and own.default == rate else rate
    rates = [given, *(group.get("initial_lr") for group in optimizer.param_groups)]
    return max((float(rate) for rate in rates if isinstance(rate, int | float)), default=0.0)


# Steps that are rounded away: parameters of 16 bits to which a step adds less than half of what is between numbers.

FIRST = 6
"""Steps that are looked at one after the other; later every one whose number is a power of two."""
AT_FULL_RATE = 3
"""Steps of nearly the largest learning rate of the run before anything is said."""
NEAR = 0.9
"""The part of the largest learning rate that counts as nearly that: a warm-up is below."""
NEARLY_ALL = 0.9
"""The part of the elements with a gradient that has to stand still."""
LONG = 64
"""Steps from which on whole parameters are told that have never moved, though others have."""


class _Looked:
    """One optimizer: the numbers after its latest step, where the next is compared, and what was found."""

    def __init__(self) -> None:
        self.before: Sample | None = None
        self.largest = 0.0
        self.found: list[tuple[float, dict[str, Any]]] = []
        """The learning rate of each step that was looked at, and what is told of it."""
        self.sign: Sign | None = None
        self.first: Sample | None = None
        self.written: set[int] = set()
        """Ids of those to which the program writes after a step: what it takes back was not rounded away."""
        self.rate = 0.0
        """The largest learning rate of those that are told."""
        self.unmoved: set[int] | None = None
        """Where less than nearly all stands still: ids of the parameters that have never moved."""

    def at_full_rate(self) -> list[dict[str, Any]]:
        return [facts for rate, facts in self.found if rate >= NEAR * self.largest]


class Rounded(Open):
    """``rounded-away``: ``stack`` is the step, ``parameters`` those that stand still, ``count`` the steps compared;
    ``facts["share"]`` is the smallest part that stood still, ``facts["dtype"]`` what they are, ``facts["apart"]`` how
    far from the next one a number of middle size is, ``facts["rate"]`` the learning rate; ``facts["unmoved"]``, where
    others move, how many parameters are what they were at the first step, ``LONG`` steps later.

    Two steps that follow one another are compared bit by bit. Only of PyTorch's own optimizers it is known that they
    keep nothing beside the parameter: a copy of 32 bits, or what was rounded off, lets a parameter move later, and
    rounding at random lets a few move at each step.
    """

    def set_up(self) -> None:
        torch = self._audit.torch
        self._short = (torch.bfloat16, torch.float16)
        self._looked: dict[int, _Looked] = {}

    def began(self, call: EngineCall) -> None:
        for looked in self._looked.values():
            if looked.before is not None:
                looked.written |= looked.before.written()

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.id not in self._looked and not (steps_alone(optimizer) and self._short_of(optimizer)):
            self.over.add(seen.id)
            return
        looked = self._looked.setdefault(seen.id, _Looked())
        rate = max(map(_rate, optimizer.param_groups), default=0.0)
        looked.largest = max(looked.largest, rate)
        before, looked.before = looked.before, None
        due = seen.steps < FIRST or seen.steps & (seen.steps - 1) == 0  # the next one is compared with it
        if not due and before is None:
            return
        every = [p for g in optimizer.param_groups if _rate(g) for p in held_by(g) if p.grad is not None]
        mine = [p for p in every if id(p) not in looked.written]
        now = Sample(mine, self._short)
        looked.before = now if due else None
        looked.first = looked.first or now
        share = now.still(before) if before is not None else None
        if not mine and every:
            self._forget(seen)
        if share is None:
            return
        if share < NEARLY_ALL or looked.unmoved is not None:
            assert looked.first is not None
            earlier, looked.unmoved = looked.unmoved, now.unmoved(looked.first)
            looked.sign = looked.sign if earlier == looked.unmoved else None
            if not looked.unmoved:
                self._forget(seen)
                return
        looked.found.append((rate, {"share": share, "dtype": now.dtype, "apart": now.apart}))
        whole = looked.unmoved
        long = whole is None or seen.steps > LONG
        if looked.sign is None and long and len(looked.at_full_rate()) >= AT_FULL_RATE:
            told = whole or self._short_of(optimizer) - looked.written
            groups = [(g, [p for p in held_by(g) if id(p) in told]) for g in optimizer.param_groups]
            looked.rate = max((_rate(g) for g, some in groups if some), default=rate)
            looked.sign = self._sign_of_step("rounded-away", seen, [p for _, some in groups for p in some])
            if looked.sign is not None:
                self._audit.tell_early()

    def _short_of(self, optimizer: Any) -> set[int]:
        return {id(p) for p in parameters_of(optimizer) if p.dtype in self._short and p.requires_grad}

    def _forget(self, seen: Seen) -> None:
        self.over.add(seen.id)
        del self._looked[seen.id]

    def signs(self) -> list[Sign]:
        out = []
        for looked in self._looked.values():
            # A rate that has risen since was that of a warm-up.
            if looked.sign is None or len(full := looked.at_full_rate()) < AT_FULL_RATE:
                continue
            looked.sign.count = len(full)
            looked.sign.facts = {**min(full, key=lambda f: float(f["share"])), "rate": looked.rate}
            if looked.unmoved is not None:
                looked.sign.facts["unmoved"] = len(looked.unmoved)
            out.append(looked.sign)
        return out


def _rate(group: Any) -> float:
    """The learning rate of a group of parameters; 0 where it has none, or where only a GPU knows it."""
    rate = group.get("lr", 0.0)
    known = isinstance(rate, int | float) or bool(getattr(rate, "is_cpu", False))
    return float(rate) if known else 0.0


# Steps of an optimizer that a GradScaler knows nothing of, although it has scaled the loss.


class PastScaler(Early):
    """``past-scaler``: ``stack`` is a step of ``optimizer`` outside of the scaler's ``step``, by gradients that are
    still multiplied by the scale (``facts["scaled"]``; ``other`` is the backward call), or by those with which the
    scaler has just stepped it. ``facts["step"]`` is the scaler's latest step of it, empty where there is none, and
    ``facts["updated"]`` whether any iteration of a scaler was ended."""

    def set_up(self) -> None:
        self._before: dict[int, tuple[int, bool, dict[int, Any]]] = {}
        """By optimizer: events up to its latest step, whether a scaler made that, and the gradients it left."""
        self._past: dict[int, int] = {}
        """How many steps in a row, of those outside of a scaler, were of this kind."""

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        scaler, journal = self._audit.witness.scaler, self._journal
        if not scaler.used:
            return
        every = parameters_of(optimizer)
        left = {id(p): (id(p.grad), version_of(p.grad)) for p in every if p.grad is not None}
        since, own, former = self._before.get(seen.id, (0, False, {}))
        self._before[seen.id] = journal.count, scaler.stepping, left
        if scaler.stepping or not left or self._past.get(seen.id, 0) < 0:
            return
        calls = [e for e in journal.entries(since) if e.kind == "backward" and e.may_reach(set(map(id, every)))]
        last = calls[-1] if calls else None
        scaled = last is not None and last.root in scaler.scaled and not scaler.is_divided(every, last.index)
        again = last is None and own and left == former
        self._past[seen.id] = self._past.get(seen.id, 0) + 1 if scaled or again else -1
        self._so_often(self._past[seen.id], seen, lambda: self._told(seen, last, id(optimizer)))

    def _told(self, seen: Seen, last: Entry | None, which: int) -> Sign | None:
        scaler = self._audit.witness.scaler
        if last is not None and scaler.scale() == 1.0:
            return None
        sign = self._sign("past-scaler", self._journal.latest("step", seen.id), last, optimizer=seen.id)
        steps = [raw for kind, raw, _, of, _ in scaler.calls if (kind, of) == ("step", which)]
        updated = any(kind == "update" for kind, *_ in scaler.calls)
        sign.facts = {"scaled": last is not None, "step": self._facts(next(reversed(steps), None)), "updated": updated}
        return sign

    def signs(self) -> list[Sign]:
        return [*self._found, *self._at_end(lambda seen: self._past[seen.id] > 0)]
