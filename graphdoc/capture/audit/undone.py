"""Steps of which nothing is left: the parameters have their old numbers again, or the learning rate is zero."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.moved import print_of
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import has_gradient, parameters_of
from graphdoc.capture.living import Ref
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

MOST = 3
"""Parameters of an optimizer that are read: the first, one in the middle, the last."""
ENOUGH = 3
"""Steps, each taken back, before a second run is asked who did it."""
MOST_STEPS = 12
VALUES = 4
"""Different numbers that the parameters hold at least: one that is held at its bound comes back to it as well."""
AT_REST = 8
"""Steps with a learning rate of zero, and none with another, before anything is said."""


class _Held:
    """The parameters of one optimizer that are read, and what they held."""

    def __init__(self, parameters: list[Any]) -> None:
        chosen = {id(p): p for p in (parameters[0], parameters[len(parameters) // 2], parameters[-1])}
        self.refs = [Ref(p) for p in chosen.values()]
        self.earlier: list[int] = []
        """Before the latest step."""
        self.before: list[int] = []
        """At the latest backward call."""
        self.after = self.read()
        self.times = 0

    def read(self) -> list[int]:
        return [print_of(p) if (p := ref()) is not None else 0 for ref in self.refs]

    def taken_back(self) -> bool:
        """Whether the latest step has moved all of them, and each has its old number again."""
        pairs = zip(self.after, self.before, strict=True)
        return self.before == self.earlier and all(a != b and a and b for a, b in pairs)


class Undone(Watch):
    """``suspect-undone``, weak: before each of its steps the parameters of an optimizer were, bit by bit, what they had
    been before the step before. A second run tells who has put them back."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._held: dict[int, _Held | None] = {}
        """By optimizer; None once it has been seen to get on."""

    def began(self) -> None:
        """A backward call is about to run."""
        for held in self._held.values():
            if held is not None:
                held.before = held.read()

    def wants(self, seen: Seen) -> bool:
        return self._held.get(seen.id) is not None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.id not in self._held:
            mine = [p for p in parameters_of(optimizer) if p.grad is not None and print_of(p)]
            self._held[seen.id] = _Held(mine) if mine else None
            return
        held = self._held[seen.id]
        if held is None or not held.before:
            return
        back = held.taken_back() if held.earlier else True
        held.times += bool(held.earlier)
        held.earlier, held.before, held.after = held.before, [], held.read()
        if not back or seen.steps > MOST_STEPS:
            self._held[seen.id] = None
        elif held.times == ENOUGH:
            self._held[seen.id] = None
            if self._differ(held):
                self._found.append(Sign("suspect-undone", optimizer=seen.id, count=ENOUGH, weak=True))

    def _differ(self, held: _Held) -> bool:
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None), self._audit.torch.no_grad():
            numbers = [n for ref in held.refs if (n := numbers_of(ref())) is not None]
            return sum(int(n.unique().numel()) for n in numbers) >= VALUES


class AtRest(Watch):
    """``rate-zero``: ``stack`` is the step, ``count`` how many there were, each with a learning rate of zero;
    ``facts["rate"]`` is what the program asked for. One that is made with a rate of zero is its author's word."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self.over: set[int] = set()
        """Optimizers that have stepped by a rate."""
        self._steps: dict[int, int] = {}
        self._kept: dict[int, Sign] = {}

    def wants(self, seen: Seen) -> bool:
        return seen.id not in self.over

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        still = all(group.get("lr") == 0.0 for group in optimizer.param_groups)
        asked = _asked(optimizer) if still else 0.0
        if not asked:
            self.over.add(seen.id)
            self._kept.pop(seen.id, None)
            return
        self._steps[seen.id] = self._steps.get(seen.id, 0) + has_gradient(optimizer)
        if self._steps[seen.id] == AT_REST and seen.id not in self._kept:
            self._tell(optimizer, seen, asked)

    def _tell(self, optimizer: Any, seen: Seen, asked: float) -> None:
        sign = self._audit.of_step("rate-zero", seen, [p for p in parameters_of(optimizer) if p.grad is not None])
        if sign is None:
            return
        sign.facts = {"rate": asked}
        self._kept[seen.id] = sign
        self._audit.tell_early()

    def signs(self) -> list[Sign]:
        for ident, sign in self._kept.items():
            sign.count = self._steps[ident]
        return list(self._kept.values())


def _asked(optimizer: Any) -> float:
    """The largest learning rate that the program has asked for: a scheduler keeps it (``initial_lr``), and an optimizer
    what it was made with, unless that is what it has of itself; 0 where it is no plain number."""
    rate, own = optimizer.defaults.get("lr"), signature(type(optimizer)).parameters.get("lr")
    given = None if own is not None and own.default == rate else rate
    rates = [given, *(group.get("initial_lr") for group in optimizer.param_groups)]
    return max((float(rate) for rate in rates if isinstance(rate, int | float)), default=0.0)
