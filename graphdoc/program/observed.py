"""The observed program: one object for a run, of which every question is asked and by which each is answered once."""

from __future__ import annotations

from collections import deque
from functools import cached_property

from graphdoc.evidence import Event, Evidence
from graphdoc.program.journal import Journal
from graphdoc.program.overwrites import Overwrite, overwrite_of
from graphdoc.program.owners import Owners
from graphdoc.program.reuse import Reuse, older_part


class Program:
    """What is known of one run. Answers are worked out when they are first asked for, from the evidence alone."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    @cached_property
    def owners(self) -> Owners:
        """Which optimizer holds which parameter."""
        return Owners(self.evidence.optimizers)

    @cached_property
    def journal(self) -> Journal:
        """The calls of the run in order."""
        return Journal(self.evidence.events, self.owners, self.evidence.sources)

    @cached_property
    def failing(self) -> Event | None:
        """The backward or grad call that failed, or None where none is known."""
        return self.evidence.failing_call

    @cached_property
    def trained(self) -> frozenset[str] | None:
        """The parameters that the failing call is meant to give gradient to; None where that is not known.

        Those of the optimizers that it works for; where none is known to, those of the optimizers that own what it
        reaches without any older part.
        """
        if self.failing is None:
            return None
        names = self.owners.parameters(self.journal.works_for(self.failing))
        names = names or self.owners.parameters(self.owners.holding(self.evidence.fresh_reaches))
        return frozenset(names) or None

    @cached_property
    def reuse(self) -> Reuse | None:
        """The older part of a graph that the failing call ran into; None where no edge into one was seen."""
        return older_part(self.evidence, self.journal, self.failing, self.trained)

    @cached_property
    def overwrite(self) -> Overwrite | None:
        """The tensor that was written between its forward and this backward; None where the error is another."""
        return overwrite_of(self.evidence, self.journal, self.failing, self.reuse, self.trained)


KEPT = 4
_recent: deque[Program] = deque(maxlen=KEPT)


def program_of(evidence: Evidence) -> Program:
    """The one Program of this evidence; the last few are kept."""
    found = next((p for p in _recent if p.evidence is evidence), None)
    if found is None:
        found = Program(evidence)
        _recent.append(found)
    return found
