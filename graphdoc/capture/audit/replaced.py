"""Parameters that are replaced in their optimizer between the backward call and the step: the gradients are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import optimizer_functions, site_of
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.events.journal import Noted, Seen


MOST_COMPARED = 50
"""Parameters of an optimizer that are told from those before."""
MOST_STEPS = 500
"""Steps of an optimizer that are looked at one by one, once its parameters have been replaced."""


class _Replacing:
    """One optimizer whose parameters are replaced while it trains."""

    def __init__(self) -> None:
        self.left = MOST_STEPS
        self.call: tuple[Noted, list[Ref]] | None = None
        """The latest backward call since its latest step, and what it held as that began."""
        self.fed: set[Any] = set()
        """The places of such calls that gave gradients to all that was stepped next."""
        self.times = 0


class Replaced(Watch):
    """``replaced-before-step``: ``optimizer`` held other parameters as the backward call ``other`` began than at its
    step, ``stack``; those are in no optimizer, and the new ones have no gradient. Between its other steps this call
    gave gradients to all. ``count`` such steps; ``facts["others"]``: it held some that found theirs."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._held: dict[int, list[Ref]] = {}
        """By optimizer: what it held at its latest step."""
        self._replacing: dict[int, _Replacing] = {}

    def wants(self, seen: Seen) -> bool:
        known = self._replacing.get(seen.id)
        return known is not None and known.left > 0

    def began(self, noted: Noted) -> None:
        """A backward call is about to run."""
        for ident, known in self._replacing.items():
            seen = self._audit.journal.optimizers.get(ident)
            optimizer = seen.ref() if seen is not None and known.left > 0 else None
            if optimizer is not None:
                known.call = noted, [Ref(p) for p in parameters_of(optimizer)[:MOST_COMPARED]]

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        mine = parameters_of(optimizer)[:MOST_COMPARED]
        before = self._held.get(seen.id, [])
        if len(before) != len(mine) or any(ref() is not p for ref, p in zip(before, mine, strict=True)):
            self._held[seen.id] = [Ref(p) for p in mine]
            if before and seen.id not in self._replacing:
                self._replacing[seen.id] = _Replacing()
        known = self._replacing.get(seen.id)
        call = known.call if known is not None else None
        if known is None or call is None or known.left <= 0:
            return
        known.call, known.left = None, known.left - 1
        noted, held = call
        place = site_of(stacks.stack_of_seen(noted[3]))
        there = {id(p) for ref in held if (p := ref()) is not None}
        new = [p for p in mine if id(p) not in there]
        if not new:
            if all(p.grad is not None for p in mine):
                known.fed.add(place)
        elif place in known.fed and all(p.grad is None for p in new) and self._are_left(noted, held, seen):
            known.times += 1
            others = len(new) < len(mine)
            self._so_often(known.times, seen, lambda: self._tell(noted, new, seen, others))

    def _are_left(self, noted: Noted, held: list[Ref], seen: Seen) -> bool:
        """Whether none of what was held is in an optimizer now but what still is in this one, and nothing has cleared
        this one since. What is gone has no gradient; what is alive still has it."""
        journal = self._audit.journal
        if optimizer_functions(stacks.stack_of_seen(noted[3])):
            return False  # the step calls backward itself
        if any(e.kind == "zero_grad" and e.optimizer == seen.id for e in journal.entries(noted[0])):
            return False
        given = {id(p) for _, o in journal.live() for p in parameters_of(o)}
        gone = [p for ref in held if (p := ref()) is None or id(p) not in given]
        return bool(gone) and all(p is None or p.grad is not None for p in gone)

    def _tell(self, noted: Noted, new: list[Any], seen: Seen, others: bool) -> Sign | None:
        sign = self._sign_of_step("replaced-before-step", seen, new)
        if sign is not None:
            sign.other, sign.facts = self._frames(noted), {"others": others}
        return sign

    def signs(self) -> list[Sign]:
        return [*self._found, *self._at_end(lambda _: True)]
