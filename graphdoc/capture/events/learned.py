"""Steps like the last ones run without stacks of their nodes: ``graphdoc run --capture learned``, for long runs.

Nothing is ever told from what such a step is taken to be like. A failure after the first of them is read from its words
alone (``graphdoc.second_run``), until a run that records every step has shown it again. So what is decided here costs
speed or a second run, and no truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoc.capture.events.journal import Seen

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

ALIKE = 12
"""Steps in a row without a new backward call after which they count as known."""
FIRST = 24
"""Steps that are recorded in any case."""
PERIOD, OPENS, CLOSES = 300, 95, 100
"""After its steps 100 and 1000 the audit looks at what an optimizer's loop has gathered: those before are recorded."""


class Learned:
    """Switches the recording of one process off and on again. ``since`` is the step of an optimizer after which it was
    first switched off; -1 while every step has been recorded."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._view = witness.anomaly
        self._steps = 0
        self._alike = 0
        self._open: set[int] = set()
        self.since = -1

    def met(self) -> None:
        """A backward call that is not known yet is about to run."""
        self._alike = 0
        if self._view.thin:
            self._view.thin_out(False)

    def stepped(self, seen: Seen) -> None:
        """An optimizer has stepped, and everything of ours has seen it."""
        at = seen.steps % PERIOD
        if self._view.thin and at > ALIKE and not OPENS <= at <= CLOSES and not self._witness.looking:
            return  # as nearly always
        self._steps += 1
        self._alike += 1
        if OPENS <= at <= CLOSES:
            (self._open.add if at < CLOSES else self._open.discard)(seen.id)
        elif seen.steps <= ALIKE:
            self._alike = 0
        known = self._alike >= ALIKE and self._steps >= FIRST
        thin = known and not (self._open or self._witness.looking)
        if thin is not self._view.thin:
            self._view.thin_out(thin)
            if thin and self.since < 0:
                self.since = self._steps
