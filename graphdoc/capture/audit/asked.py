"""What the user has asked for, so that a run of which nothing is to be told asks for its second run too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoc.evidence import GRADIENTS_ASKED, Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


class GradientsAsked:
    """``gradients-asked``: an optimizer has stepped, and its gradients are to be measured."""

    def __init__(self, witness: Witness) -> None:
        self._journal = witness.journal

    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._journal.optimizers)

    def tell(self, evidence: Evidence) -> None:
        """Add it."""
        evidence.signs.append(Sign(GRADIENTS_ASKED, weak=True))
