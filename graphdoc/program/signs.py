"""What was seen in a run that went on: the signs of one kind, and whose they are."""

from __future__ import annotations

from graphdoc.evidence import Optimizer, Sign
from graphdoc.evidence.lookup import optimizer_with


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
