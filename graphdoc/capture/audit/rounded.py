"""Steps that are rounded away: parameters of 16 bits to which a step adds less than half of what is between numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.number_facts import Sample
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

FIRST = 6
"""Steps that are looked at one after the other; later every one whose number is a power of two."""
ENOUGH = 3
"""Steps of nearly the largest learning rate of the run before anything is said."""
NEAR = 0.9
"""The part of the largest learning rate that counts as nearly that: a warm-up is below."""
NEARLY_ALL = 0.9
"""The part of the elements with a gradient that has to stand still."""


class _Looked:
    """One optimizer: the numbers after its latest step, where the next is compared, and what was found."""

    def __init__(self) -> None:
        self.before: Sample | None = None
        self.largest = 0.0
        self.found: list[tuple[float, dict[str, Any]]] = []
        """The learning rate of each step that was looked at, and what is told of it."""
        self.sign: Sign | None = None

    def at_full_rate(self) -> list[dict[str, Any]]:
        return [facts for rate, facts in self.found if rate >= NEAR * self.largest]


class Rounded(Watch):
    """``rounded-away``: ``stack`` is the step, ``parameters`` those that stand still, ``count`` the steps compared;
    ``facts["share"]`` is the smallest part that stood still, ``facts["dtype"]`` what they are, ``facts["apart"]`` how
    far from the next one a number of middle size is, ``facts["rate"]`` the learning rate.

    Two steps that follow one another are compared bit by bit. Only of PyTorch's own optimizers it is known that they
    keep nothing beside the parameter: a copy of 32 bits, or what was rounded off, lets a parameter move later, and
    rounding at random lets a few move at each step.
    """

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        torch = audit.torch
        self._short = (torch.bfloat16, torch.float16)
        self._looked: dict[int, _Looked] = {}
        self.over: set[int] = set()
        """Optimizers of which nothing is to be looked for any more."""

    def wants(self, seen: Seen) -> bool:
        return seen.id not in self.over

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.id not in self._looked and not self._is_meant(optimizer):
            self.over.add(seen.id)
            return
        looked = self._looked.setdefault(seen.id, _Looked())
        rate = max(map(_rate, optimizer.param_groups), default=0.0)
        looked.largest = max(looked.largest, rate)
        before, looked.before = looked.before, None
        due = seen.steps < FIRST or seen.steps & (seen.steps - 1) == 0  # the next one is compared with it
        if not due and before is None:
            return
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            mine = [p for g in optimizer.param_groups if _rate(g) for p in g["params"] if p.grad is not None]
            now = Sample(mine, self._short)
            looked.before = now if due else None
            share = now.still(before) if before is not None else None
        if share is None:
            return
        if share < NEARLY_ALL:
            self.over.add(seen.id)
            del self._looked[seen.id]
            return
        looked.found.append((rate, {"share": share, "dtype": now.dtype, "apart": now.apart}))
        if looked.sign is None and len(looked.at_full_rate()) >= ENOUGH:
            self._tell(optimizer, seen, looked)

    def _is_meant(self, optimizer: Any) -> bool:
        """Whether this is one of PyTorch's own optimizers, and holds parameters of 16 bits."""
        own = type(optimizer).step.__module__.startswith("torch.optim.")
        return own and any(p.dtype in self._short and p.requires_grad for p in parameters_of(optimizer))

    def _tell(self, optimizer: Any, seen: Seen, looked: _Looked) -> None:
        mine = [p for p in parameters_of(optimizer) if p.dtype in self._short]
        sign = self._audit.of_step("rounded-away", seen, mine)
        if sign is None:
            return
        looked.sign = sign
        self._audit.tell_early()

    def signs(self) -> list[Sign]:
        out = []
        for looked in self._looked.values():
            # A rate that has risen since was that of a warm-up.
            if looked.sign is None or len(full := looked.at_full_rate()) < ENOUGH:
                continue
            looked.sign.count = len(full)
            looked.sign.facts = {**min(full, key=lambda f: float(f["share"])), "rate": looked.largest}
            out.append(looked.sign)
        return out


def _rate(group: Any) -> float:
    """The learning rate of a group of parameters; 0 where it has none, or where only a GPU knows it."""
    rate = group.get("lr", 0.0)
    known = isinstance(rate, int | float) or bool(getattr(rate, "is_cpu", False))
    return float(rate) if known else 0.0
