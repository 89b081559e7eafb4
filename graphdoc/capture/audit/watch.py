"""What each watch of the audit has: the audit that it asks and tells, and what it found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Frame, Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen


MOST_TRAININGS = 8
"""Optimizers for which a look is counted anew."""


class Watch:
    """One question to a run that goes on. What it found stays found, where ``signs`` does not say otherwise."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._found: list[Sign] = []
        self._looks = 0

    def _has_looked(self, most: int) -> bool:
        """Whether it has looked so often for each optimizer: another one may be made when the first has trained."""
        return self._looks >= most * min(max(len(self._audit.journal.optimizers), 1), MOST_TRAININGS)

    def _frames(self, raw: Any) -> list[Frame]:
        """A stack as the evidence has it."""
        return frames_of(raw, self._audit.witness.cwd)

    def _call(self, noted: Noted) -> list[Frame]:
        """The stack of a call into the engine."""
        return self._frames(event_stacks.stack_of_seen(noted[3]))

    def _latest_step(self, seen: Seen) -> list[Frame]:
        """The stack of an optimizer's latest step; empty where the journal does not have it."""
        step = self._audit.journal.latest("step", seen.id)
        return self._frames(step.raw) if step is not None else []

    def _report(self, sign: Sign) -> None:
        """This was found for certain."""
        self._found.append(sign)
        self._audit.tell_early()

    def wants(self, _seen: Seen) -> bool:
        """Whether it asks for each step of this optimizer now, however many there have been."""
        return False

    def signs(self) -> list[Sign]:
        return self._found
