"""What may prove a diagnosis: the facts of a run for which a cause says ``certain``; no other module says it."""

from __future__ import annotations

from enum import Enum

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
    SOURCE = "the one place in the source that does it, and what the run did there"

    def where(self, holds: bool) -> Confidence:
        """``certain`` where the fact was found, otherwise ``likely``."""
        return "certain" if holds else "likely"

    @property
    def confidence(self) -> Confidence:
        """The confidence of a finding that is only told where the fact was found."""
        return self.where(True)
