"""Optimizers that are cleared and never step, or step and never find a gradient."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.audit.unheld import in_their_place
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import optimizer_functions
from graphdoc.capture.living import Ref
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.source_texts import lines_with
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Entry, Noted, Place, Seen


ENOUGH = 4
"""Times that gradients have been thrown away before anything is said."""

MOST_SAMPLED = 50
"""Parameters whose numbers are looked at, twice in a run."""


class Unstepped(Watch):
    """``step-missing``: ``stack`` is the backward call whose gradients no optimizer uses, ``other`` the call of
    ``zero_grad`` that throws those of this optimizer away. ``facts["alone"]``: they are for this optimizer only;
    ``facts["shared"]``: others step by this loss, too, and it may be theirs alone; ``facts["elsewhere"]`` are files of
    the program that speak of gradients."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._discards: dict[int, int] = {}
        self._values: dict[int, list[float]] = {}
        """What the parameters of such an optimizer held when it was first cleared."""
        self._kept: dict[int, tuple[Seen, Sign]] = {}

    def zeroed(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer that has never stepped is about to be cleared."""
        count = self._discards.get(seen.id, 0)
        if count > ENOUGH:
            return
        parameters = parameters_of(optimizer)
        if not any(p.grad is not None for p in parameters):
            return
        if count == 0:
            self._values[seen.id] = self._sampled(parameters)
        self._discards[seen.id] = count + 1
        if count + 1 == ENOUGH and self._sampled(parameters) == self._values[seen.id]:
            self._judge(parameters, seen)

    def _sampled(self, parameters: list[Any]) -> list[float]:
        """A few numbers of each parameter: a program that updates them by itself may do so by ``.data``, of which the
        version counter knows nothing."""
        audit = self._audit
        out: list[float] = []
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            for p in parameters[:MOST_SAMPLED]:
                numbers = numbers_of(p) if p.is_floating_point() else None
                if numbers is None:
                    out.append(0.0 if p.is_inference() else float(p._version))
                    continue
                flat = numbers.reshape(-1)
                out.append(float(flat[:: max(1, flat.numel() // 16)].double().sum()))
        return out

    def _judge(self, parameters: list[Any], seen: Seen) -> None:
        audit = self._audit
        if audit.witness.scaled():
            return  # a scaler leaves steps out as long as gradients overflow
        mine = {id(p) for p in parameters}
        entries = list(audit.journal.entries())
        own = [e for e in entries if e.kind == "backward" and e.reaches and e.reaches <= mine]
        alone = bool(own)
        own = own or self._unused(entries, mine)
        shared = not own
        own = own or [e for e in entries if e.kind == "backward" and e.reaches and e.reaches & mine]
        if not own or optimizer_functions(own[-1].raw):
            return  # a step with a closure is under way
        here = stacks.stack_here(4)  # _judge < zeroed < Audit.zeroed < the inserted callback
        audit.snapshot()
        cwd = audit.witness.cwd
        names = audit.named(mine)
        sign = Sign("step-missing", self._frames(own[-1].raw), self._frames(here), None, names, seen.id)
        sign.event, sign.count = audit.journal.count, ENOUGH
        sign.facts = {"alone": alone, "shared": shared}
        sign.facts["elsewhere"] = lines_with(b".grad", cwd)
        self._kept[seen.id] = (seen, sign)
        audit.tell_early()

    def _unused(self, entries: list[Entry], mine: set[int]) -> list[Entry]:
        """The backward calls from one place that reach these parameters among others, and of which no step has used
        anything: each optimizer that stepped behind one had been cleared first.
        """
        held = {ident: {id(p) for p in parameters_of(o)} for ident, o in self._alive()}
        found: dict[Place, list[Entry]] = {}
        used: set[Place] = set()
        for at, e in enumerate(entries):
            if e.kind == "backward" and (e.reaches is None or e.reaches & mine):
                found.setdefault(e.place, []).append(e)
                if e.reaches is None or _used(e.reaches, entries[at + 1 :], held):
                    used.add(e.place)
        left = [calls for place, calls in found.items() if place not in used and len(calls) >= ENOUGH - 1]
        return left[0] if len(left) == 1 else []

    def _alive(self) -> list[tuple[int, Any]]:
        return [(ident, o) for ident, s in self._audit.journal.optimizers.items() if (o := s.ref()) is not None]

    def signs(self) -> list[Sign]:
        return [sign for seen, sign in self._kept.values() if not seen.steps]


def _used(reaches: frozenset[int], later: list[Entry], held: dict[int, set[int]]) -> bool:
    """Whether a step behind a backward call may have used its gradients: its optimizer was not cleared in between."""
    cleared: set[int] = set()
    for e in later:
        if e.kind == "zero_grad":
            cleared.add(e.optimizer)
        elif (
            e.kind == "step" and e.optimizer not in cleared and (e.optimizer not in held or held[e.optimizer] & reaches)
        ):
            return True
    return False


# Optimizers that step again and again and never find a gradient: no loss reaches what they are to train.

IN_VAIN = 5
"""Steps behind a backward call each before anything is said."""
MOST_LEAVES = 50
"""Leaves of a call that are told by name."""

_BACKWARD = ("backward", "grad")


class Starved(Watch):
    """``starved``: ``stack`` is the step, ``other`` the backward call in front of it, ``count`` how many steps there
    were. ``facts["reaches"]`` names what this call reaches, ``facts["more"]`` counts what of it has no name.
    ``facts["no_call"]``: graphs were recorded between the steps, and no backward call was made at all.

    ``held-stale``, as ``Unheld`` tells it, where no module has what the optimizer holds and others get gradients in its
    place: FSDP2 replaces every parameter by its shard, and no backward call reaches a shard as a leaf."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self.fed: set[int] = set()
        """Optimizers that have found a gradient, or of whose parameters a backward call has reached one."""
        self._idle: dict[int, int] = {}
        """Of the others: steps behind a backward call."""
        self._kept: dict[int, tuple[Seen, Sign]] = {}
        self._latest: tuple[Noted, int, list[Ref]] | None = None
        """The latest call that reached a leaf, how many it reached, and the first of them."""
        self._fresh: set[int] = set()
        """Optimizers that have stepped since the latest backward call."""
        self._made: dict[int, tuple[int, int]] = {}
        """Of optimizers that step before any backward call: how many nodes there were at the latest step, and the
        version of the first parameter."""
        self._alone: dict[int, int] = {}
        """Steps between which nodes were recorded, and before which no backward call was made."""

    def called(self, noted: Noted, leaves: dict[int, Any]) -> None:
        """A backward call that is looked at is about to run."""
        self._fresh = set()
        known = self._audit.journal.optimizers.values()
        if known and all(seen.id in self.fed for seen in known):
            return
        first = itertools.islice(leaves.values(), MOST_LEAVES)
        self._latest = (noted, len(leaves), [Ref(t) for t in first]) if leaves else None

    def wants(self, seen: Seen) -> bool:
        return seen.id not in self.fed

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer that is not ``fed`` has stepped."""
        mine = [p for p in parameters_of(optimizer) if p.requires_grad]
        had, reached = self._audit.journal.with_grad, self._audit.reached
        if any(p.grad is not None or had.get(id(p)) or id(p) in reached for p in mine):
            self.fed.add(seen.id)
            self._kept.pop(seen.id, None)
            return
        if not mine or seen.id in self._fresh:
            return
        if self._latest is None:
            self._without_call(optimizer, mine, seen)
            return
        self._fresh.add(seen.id)
        self._idle[seen.id] = self._idle.get(seen.id, 0) + 1
        if self._idle[seen.id] == IN_VAIN:
            self._tell(mine, seen, *self._latest)

    def _without_call(self, optimizer: Any, mine: list[Any], seen: Seen) -> None:
        """A step before any backward call. One that follows no recording at all is there for the scheduler."""
        if not type(optimizer).__module__.startswith("torch.optim") or optimizer._optimizer_step_post_hooks:
            return  # it may well step by something else, or by gradients that are gone now
        made, version = self._audit.journal.nodes_made, mine[0]._version
        before, written = self._made.get(seen.id, (made, version))
        recorded = made > before and version == written  # who writes the weights by hand wants no gradient
        self._made[seen.id] = made, version
        self._alone[seen.id] = self._alone.get(seen.id, 0) + 1 if recorded else 0
        if self._alone[seen.id] == IN_VAIN and not self._audit.journal.has(*_BACKWARD):
            self._tell(mine, seen, None, 0, [])

    def _tell(self, mine: list[Any], seen: Seen, noted: Noted | None, count: int, leaves: list[Ref]) -> None:
        audit = self._audit
        step = audit.journal.latest("step", seen.id)
        if step is None:
            return
        audit.snapshot()
        backward = self._call(noted) if noted is not None else []
        with Unseen(audit.torch, audit.witness.anomaly, None):
            new = in_their_place(audit.torch, mine) if noted is not None else set()
        if new and new <= audit.names.keys() and not any(id(p) in audit.names for p in mine):
            names = sorted(audit.names[i] for i in new)
            sign = Sign("held-stale", backward, [], None, names, seen.id, step.index, IN_VAIN, facts={"no_call": False})
            self._kept[seen.id] = seen, sign
            audit.tell_early()
            return
        sign = Sign("starved", self._frames(step.raw), backward, optimizer=seen.id, event=step.index)
        sign.parameters = audit.named(map(id, mine))
        alive = (id(t) for ref in leaves if (t := ref()) is not None)
        named = audit.named(alive)
        sign.facts = {"reaches": named, "more": count - len(named), "no_call": noted is None}
        self._kept[seen.id] = seen, sign
        audit.tell_early()

    def signs(self) -> list[Sign]:
        for seen, sign in self._kept.values():
            sign.count = seen.steps
        # A call that comes late is one: the steps before it were a warm-up.
        has = self._audit.journal.has
        return [sign for _, sign in self._kept.values() if not (sign.facts["no_call"] and has(*_BACKWARD))]
