"""Parameters that are frozen while their optimizer steps: since its first step, or again after they were trained."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

ENOUGH = 3
"""Steps of the last phase before it is judged."""
MOST_CHANGES = 3


class _Followed:
    """One frozen parameter in the place of all: which way it was switched last, how often, and the steps since."""

    __slots__ = ("changes", "event", "on", "ref", "since", "told", "trained")

    def __init__(self, parameter: Any) -> None:
        self.ref = weakref.ref(parameter)
        self.on = False
        self.trained = False
        self.told = False
        self.changes = self.since = 0
        self.event = -1


class Refrozen:
    """``frozen-again``: ``parameters`` take no part any more; ``stack`` is a step that leaves them out. Whether it is
    meant, the source has to tell. ``frozen-throughout``: they never took part; weak, for so is many a backbone."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self.followed: dict[int, _Followed] = {}
        """By optimizer; those that held nothing frozen at their first step are not in it."""
        self._found: dict[int, tuple[_Followed, Sign]] = {}

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.steps == 1:
            frozen = next((p for p in parameters_of(optimizer) if not p.requires_grad), None)
            if frozen is not None:
                self.followed[seen.id] = _Followed(frozen)
            return
        followed = self.followed.get(seen.id)
        parameter = followed.ref() if followed is not None else None
        if followed is None or parameter is None or followed.changes > MOST_CHANGES:
            return
        followed.since += 1
        if parameter.requires_grad is not followed.on:
            followed.on = parameter.requires_grad
            followed.changes += 1
            followed.since = 0
            followed.event = self._audit.journal.count
        if followed.on:
            followed.trained = followed.trained or parameter.grad is not None
        elif followed.changes == 2 and followed.trained and followed.since == ENOUGH and not followed.told:
            followed.told = True
            self._tell(optimizer, seen, followed, "frozen-again")
        elif not followed.changes and followed.since == ENOUGH:
            self._tell(optimizer, seen, followed, "frozen-throughout")

    def _tell(self, optimizer: Any, seen: Seen, followed: _Followed, kind: str) -> None:
        audit = self._audit
        audit.snapshot()
        step = audit.journal.latest("step", seen.id)
        sign = Sign(kind, frames_of(step.raw, audit.witness.cwd) if step is not None else [])
        sign.weak = kind == "frozen-throughout"
        mine = [p for p in parameters_of(optimizer) if not p.requires_grad]
        sign.parameters = sorted(audit.names[id(p)] for p in mine if id(p) in audit.names)
        sign.optimizer, sign.event, sign.count = seen.id, followed.event, ENOUGH
        self._found[seen.id] = (followed, sign)
        if not sign.weak:
            audit.tell_early()

    def signs(self) -> list[Sign]:
        """Those that stayed so: who takes turns is heard of no more."""
        changes = {"frozen-again": 2, "frozen-throughout": 0}
        return [sign for followed, sign in self._found.values() if followed.changes == changes[sign.kind]]
