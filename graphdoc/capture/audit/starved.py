"""Optimizers that step again and again and never find a gradient: no loss reaches what they are to train."""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen

ENOUGH = 5
"""Steps behind a backward call each before anything is said."""
MOST_LEAVES = 50
"""Leaves of a call that are told by name."""

_BACKWARD = ("backward", "grad")


class Starved:
    """``starved``: ``stack`` is the step, ``other`` the backward call in front of it, ``count`` how many steps there
    were. ``facts["reaches"]`` names what this call reaches, ``facts["more"]`` counts what of it has no name.
    ``facts["no_call"]``: graphs were recorded between the steps, and no backward call was made at all."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._fed: set[int] = set()
        """Optimizers that have found a gradient, or of whose parameters a backward call has reached one."""
        self._idle: dict[int, int] = {}
        """Of the others: steps behind a backward call."""
        self._found: dict[int, tuple[Seen, Sign]] = {}
        self._latest: tuple[Noted, int, list[weakref.ref[Any]]] | None = None
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
        if known and all(seen.id in self._fed for seen in known):
            return
        first = itertools.islice(leaves.values(), MOST_LEAVES)
        self._latest = (noted, len(leaves), [weakref.ref(t) for t in first]) if leaves else None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.id in self._fed:
            return
        mine = [p for p in parameters_of(optimizer) if p.requires_grad]
        had, reached = self._audit.journal.with_grad, self._audit.reached
        if any(p.grad is not None or had.get(id(p)) or id(p) in reached for p in mine):
            self._fed.add(seen.id)
            self._found.pop(seen.id, None)
            return
        if not mine or seen.id in self._fresh:
            return
        if self._latest is None:
            self._without_call(optimizer, mine, seen)
            return
        self._fresh.add(seen.id)
        self._idle[seen.id] = self._idle.get(seen.id, 0) + 1
        if self._idle[seen.id] == ENOUGH:
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
        if self._alone[seen.id] == ENOUGH and not self._audit.journal.has(*_BACKWARD):
            self._tell(mine, seen, None, 0, [])

    def _tell(
        self, mine: list[Any], seen: Seen, noted: Noted | None, count: int, leaves: list[weakref.ref[Any]]
    ) -> None:
        audit, cwd = self._audit, self._audit.witness.cwd
        step = audit.journal.latest("step", seen.id)
        if step is None:
            return
        audit.snapshot()
        backward = frames_of(event_stacks.stack_of_seen(noted[3]), cwd) if noted is not None else []
        sign = Sign("starved", frames_of(step.raw, cwd), backward, optimizer=seen.id, event=step.index)
        sign.parameters = sorted(audit.names[id(p)] for p in mine if id(p) in audit.names)
        alive = (id(t) for ref in leaves if (t := ref()) is not None)
        named = sorted(audit.names[i] for i in alive if i in audit.names)
        sign.facts = {"reaches": named, "more": count - len(named), "no_call": noted is None}
        self._found[seen.id] = seen, sign
        audit.tell_early()

    def signs(self) -> list[Sign]:
        for seen, sign in self._found.values():
            sign.count = seen.steps
        # A call that comes late is one: the steps before it were a warm-up.
        has = self._audit.journal.has
        return [sign for _, sign in self._found.values() if not (sign.facts["no_call"] and has(*_BACKWARD))]
