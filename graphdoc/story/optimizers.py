"""How a sentence calls an optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphdoc.evidence import Optimizer, Sign
from graphdoc.evidence.lookup import optimizer_with
from graphdoc.story.wording import folded


def in_words(name: str, kind: str, parameters: Iterable[str], number: int) -> str:
    """As the program calls it, else by what it holds (``the Adam of `critic.*```), else by its number in the run."""
    if name:
        return f"`{name}`"
    held = folded(parameters, 2)
    return f"the {kind} of {held}" if held else f"{kind} (optimizer {number})"


def told(optimizer: Optimizer, optimizers: Sequence[Optimizer]) -> str:
    """One of the optimizers of a run."""
    number = optimizers.index(optimizer) + 1
    return in_words(optimizer.name, optimizer.type, optimizer.parameters, number)


def all_told(optimizers: Sequence[Optimizer], ids: Iterable[int]) -> list[str]:
    """Those with these ids, in the order of the run."""
    wanted = set(ids)
    return [told(o, optimizers) for o in optimizers if o.id in wanted]


def optimizer_of(optimizers: Sequence[Optimizer], sign: Sign) -> str:
    """That of a sign."""
    found = optimizer_with(optimizers, sign.optimizer)
    return told(found, optimizers) if found is not None else "the optimizer"


def opening(sentence: str) -> str:
    """The sentence with a capital at its beginning, where no name stands there."""
    return sentence[:1].upper() + sentence[1:]
