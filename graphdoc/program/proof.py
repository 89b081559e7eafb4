"""What may prove a diagnosis, for which a cause says ``certain``; and the signs of a run that went on."""

from __future__ import annotations

from enum import Enum
from typing import cast

from graphdoc.evidence import AT_END, Optimizer, Sign, optimizer_with
from graphdoc.model import Confidence


class Certain(str):
    """The word, with what a reader is told of why."""

    proof: str

    @classmethod
    def by(cls, proof: str) -> Confidence:
        word = cls("certain")
        word.proof = proof
        return cast(Confidence, word)


class Proof(Enum):
    """A fact of the observed run that leaves no other explanation; the value says it to a reader."""

    RAISED = "this message has no other cause"
    CALLS = "seen in the calls that the run made on the scaler"
    GRAPH_END = "the graph was followed to this line, and it ends there"
    NODE = "read off the tensors and the graph of the failing call"
    OLDER_EDGE = "this graph leads into one that an earlier call has freed"
    WRITERS = "the changes that were seen account for every version of the tensor"
    MODE = "this mode of autograd was on where the tensor was made"
    BIRTH = "the first bad value was made here, from good ones"
    STEPS = "seen in the optimizers' steps and the backward calls of the run"
    COLLECTIVES = "no collective ran between `backward()` and the step"
    RERUN = "measured in runs that differ in nothing else"
    SOURCE = "no other line of the program does this"

    def where(self, holds: bool) -> Confidence:
        """``certain`` where the fact was found, otherwise ``likely``."""
        return Certain.by(self.value) if holds else "likely"

    @property
    def confidence(self) -> Confidence:
        """The confidence of a finding that is only told where the fact was found."""
        return self.where(True)

    def at(self, strength: float, holds: bool = True) -> tuple[float, Confidence]:
        """How much a finding of this strength counts, and how sure it is."""
        return strength, self.where(holds)


def likely(strength: float) -> tuple[float, Confidence]:
    """The same for a finding that no fact of the run proves."""
    return strength, "likely"


def possible(strength: float) -> tuple[float, Confidence]:
    """The same for one of several reasons."""
    return strength, "possible"


# What was seen in a run that went on: the signs of one kind, and whose they are.


def signs(signs: list[Sign], *kinds: str) -> list[Sign]:
    """The signs of these kinds, strong ones first, otherwise in the order in which they were seen."""
    return sorted((s for s in signs if s.kind in kinds), key=lambda s: s.weak)


def first_sign(seen: list[Sign], *kinds: str) -> Sign | None:
    """The strongest and earliest sign of these kinds, or None."""
    return next(iter(signs(seen, *kinds)), None)


def of_steps(sign: Sign) -> Confidence:
    """How sure a finding is whose steps tell it: a run of a few steps may be too short to tell what is meant."""
    return Proof.STEPS.where(AT_END not in sign.facts)


def name_of(optimizers: list[Optimizer], sign: Sign) -> str:
    """What the program calls the optimizer of a sign; empty where that is not known."""
    found = optimizer_with(optimizers, sign.optimizer)
    return found.name if found is not None else ""
