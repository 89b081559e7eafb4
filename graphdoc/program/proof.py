"""What may prove a diagnosis, for which a cause says ``certain``; and the signs of a run that went on."""

from __future__ import annotations

from enum import Enum

from graphdoc.evidence import Optimizer, Sign
from graphdoc.evidence.lookup import optimizer_with
from graphdoc.model import Confidence


class Proof(Enum):
    """A fact of the observed run that leaves no other explanation; the value says it in words."""

    RAISED = "PyTorch raised, in this very run, a message that belongs to this fault alone"
    CALLS = "the calls that the run made on the scaler, in their order"
    GRAPH_END = "the node at which the graph of the loss ends, and that an optimizer is to train what lies behind it"
    NODE = "the node or leaf that the failing call met, as it stood in the run"
    OLDER_EDGE = "the edge into a graph that an earlier call has walked, and the values that are carried over it"
    WRITERS = "the writes that were seen account for every version that the tensor moved on"
    MODE = "the mode of autograd that was on where the tensor was made"
    BIRTH = "the operation that made the first bad value of numbers that were good"
    STEPS = "what the optimizers' steps and the backward calls of the run did with the gradients"
    COLLECTIVES = "the collectives that ran from a backward call to the step that used its gradients"
    SOURCE = "the one place in the source that does it, and what the run did there"

    def where(self, holds: bool) -> Confidence:
        """``certain`` where the fact was found, otherwise ``likely``."""
        return "certain" if holds else "likely"

    @property
    def confidence(self) -> Confidence:
        """The confidence of a finding that is only told where the fact was found."""
        return self.where(True)


# What was seen in a run that went on: the signs of one kind, and whose they are.


def signs(signs: list[Sign], *kinds: str) -> list[Sign]:
    """The signs of these kinds, strong ones first, otherwise in the order in which they were seen."""
    return sorted((s for s in signs if s.kind in kinds), key=lambda s: s.weak)


def first_sign(seen: list[Sign], *kinds: str) -> Sign | None:
    """The strongest and earliest sign of these kinds, or None."""
    return next(iter(signs(seen, *kinds)), None)


def name_of(optimizers: list[Optimizer], sign: Sign) -> str:
    """What the program calls the optimizer of a sign; empty where that is not known."""
    found = optimizer_with(optimizers, sign.optimizer)
    return found.name if found is not None else ""
