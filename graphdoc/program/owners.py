"""Who owns a parameter: the optimizers that hold it, none of them, or one cannot tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Optimizer

UNNAMED = "<"
"""How the name of a parameter begins that the program holds under no name of its own (``<unnamed [3, 4]>``)."""


@dataclass(frozen=True)
class Ownership:
    """The answer for some parameters: ids of the ``optimizers`` that hold any of them, those that surely none holds
    (``free``), and those of which it is not known (``unknown``)."""

    optimizers: frozenset[int]
    free: frozenset[str]
    unknown: frozenset[str]

    @property
    def known(self) -> bool:
        """Whether the owner of every one of the parameters is known."""
        return not self.unknown


class Owners:
    """The optimizers of a run and what each of them holds."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self.optimizers = optimizers
        self._held = {n for o in optimizers for n in o.parameters}

    def of(self, names: Iterable[str]) -> Ownership:
        """Who owns these parameters."""
        rest = set(names) - self._held
        # What has no name is not listed by name: an optimizer may hold it all the same.
        unknown = {n for n in rest if n.startswith(UNNAMED)}
        return Ownership(frozenset(self.holding(names)), frozenset(rest - unknown), frozenset(unknown))

    def holding(self, names: Iterable[str]) -> set[int]:
        """Ids of the optimizers that hold any of these parameters."""
        wanted = set(names)
        return {o.id for o in self.optimizers if wanted & set(o.parameters)}

    def parameters(self, ids: Iterable[int]) -> set[str]:
        """What these optimizers hold."""
        wanted = set(ids)
        return {n for o in self.optimizers if o.id in wanted for n in o.parameters}
