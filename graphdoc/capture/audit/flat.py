"""Zeros from the first step on: gradients behind an operation that is flat where every value lies, and losses."""

from __future__ import annotations

import weakref
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, node_stacks, saved, stacks, walk
from graphdoc.capture.audit.deadends import MOST_NODES, dominating
from graphdoc.capture.facts import grad_fn_of, parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen

ENOUGH = 8
"""Steps from the first on, all with zeros alone, before anything is said."""
MOST_LOOKS = 4


class Flattened:
    """``zero-derivative`` with ``facts["flat"]``, the bound below which every value lies: ``stack`` is the operation,
    ``other`` the backward call, ``parameters`` those behind it, ``count`` the steps. Only of an optimizer of which no
    gradient has ever been another number than zero; the first that is takes the sign back."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self.learns: set[int] = set()
        """Optimizers that have been given a number that is not zero."""
        self._zeros: dict[int, int] = {}
        self._looks = 0
        self._met: tuple[Sign, set[int], list[weakref.ref[Any]]] | None = None
        """The operation, and the parameters behind it: their ids, which are theirs while they live."""
        self._found: dict[int, Sign] = {}

    def called(self, noted: Noted, outputs: Any) -> None:
        """A backward call that is looked at is about to run."""
        if not self._zeros or self._met is not None or self._looks >= MOST_LOOKS:
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            order = walk.walk([grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")], MOST_NODES)
            flat = {f.number: bound for f in order if (bound := _flat_below(f.node)) is not None}
            found = dominating(order, flat, audit.torch.nn.Parameter) if flat and len(order) < MOST_NODES else None
            kept = node_stacks.kept_in(order[found[0]].node) if found is not None else None
            if found is None or not isinstance(kept, stacks.Stack):
                return
            sign = Sign("zero-derivative", frames_of(kept, audit.witness.cwd), event=noted[0])
            sign.other = frames_of(event_stacks.stack_of_seen(noted[3]), audit.witness.cwd)
            sign.facts = {"op": type(order[found[0]].node).__name__, "flat": f"{flat[found[0]]:g}"}
            self._met = sign, {id(p) for p in found[1]}, [weakref.ref(p) for p in found[1]]

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped: the first number that is not zero ends the question."""
        audit = self._audit
        given = [p for p in parameters_of(optimizer) if p.grad is not None]
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            numbers = (numbers_of(p.grad) for p in given)
            if any(n is None or bool(n.any()) for n in numbers) or (not given and seen.id not in self._zeros):
                self.learns.add(seen.id)
                self._zeros.pop(seen.id, None)
                self._found.pop(seen.id, None)
                return
        self._zeros[seen.id] = self._zeros.get(seen.id, 0) + 1
        if self._zeros[seen.id] == ENOUGH and self._met is not None:
            self._tell(given, seen, *self._met)

    def _tell(self, given: list[Any], seen: Seen, sign: Sign, behind: set[int], refs: list[weakref.ref[Any]]) -> None:
        audit = self._audit
        if not all(id(p) in behind for p in given) or any(ref() is None for ref in refs):
            return  # of others it is not known why they get zeros
        with Unseen(audit.torch, audit.witness.anomaly, _getframe(1)):
            audit.snapshot()
        sign.parameters = sorted(audit.names[id(p)] for p in given if id(p) in audit.names)
        sign.optimizer = seen.id
        self._found[seen.id] = sign
        audit.tell_early()

    @property
    def told(self) -> set[int]:
        """Ids of the parameters of which it is known why their gradient is zero."""
        return self._met[1] if self._found and self._met is not None else set()

    def signs(self) -> list[Sign]:
        for ident, sign in self._found.items():
            sign.count = self._zeros[ident]
        return list(self._found.values())


# Losses that are zero by the way they are written, with gradients that are not: ``exp(x - x.detach())`` times an
# advantage whose mean is zero. Nothing is wrong with them; who asks for everything is told, as the value shows nothing.

ALIKE = 4
"""The first backward calls, all of a loss of zero, with a gradient each."""
ZERO_LOSS = 1e-6
"""What a sum that is zero may have by rounding; the gradients have to be this many times as large:"""
LARGER = 1000.0


class ZeroLoss:
    """``zero-loss``, weak: ``stack`` is the backward call, ``count`` how often its loss was zero and its gradient was
    not. Looked for only where the user wants all signs."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self.over = "audit-all" not in audit.witness.mode.split(":")
        self._waits: tuple[Noted, float] | None = None
        self._seen = 0
        self._found: list[Sign] = []

    def called(self, noted: Noted, outputs: Any) -> None:
        """A backward call that is looked at is about to run."""
        if self.over:
            return
        loss = numbers_of(outputs[0]) if len(outputs) == 1 else None
        value = float(loss) if loss is not None and loss.numel() == 1 else float("nan")
        self._waits = (noted, abs(value)) if abs(value) <= ZERO_LOSS else None
        self.over = self._waits is None

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if self._waits is None:
            return
        (noted, value), self._waits = self._waits, None
        grads = (numbers_of(p.grad) for p in parameters_of(optimizer) if p.grad is not None)
        with self._audit.torch.no_grad():
            largest = max((float(g.abs().max()) for g in grads if g is not None and g.numel()), default=0.0)
        self.over = not largest > LARGER * max(value, ZERO_LOSS / LARGER)
        self._seen += not self.over
        if self._seen == ALIKE:
            self.over = True
            stack = frames_of(event_stacks.stack_of_seen(noted[3]), self._audit.witness.cwd)
            self._found = [Sign("zero-loss", stack, event=noted[0], count=ALIKE, weak=True)]

    def signs(self) -> list[Sign]:
        return self._found


def _flat_below(node: Any) -> float | None:
    """The bound of a ReLU or a ``clamp_min`` below which every value lies that went in; None for anything else."""
    name = type(node).__name__
    try:
        if name == "ReluBackward0":
            result = _kept(node, "result")
            return 0.0 if result is not None and not bool(result.any()) else None
        if name in ("ClampMinBackward0", "ClampBackward0"):
            value = _kept(node, "self")
            bound = node._saved_min
            return float(bound) if value is not None and bound is not None and bool((value < bound).all()) else None
    except (AttributeError, RuntimeError, TypeError):
        pass
    return None


def _kept(node: Any, name: str) -> Any:
    """The numbers of a saved tensor; None where they cannot be read, or reading them would run code of the user's."""
    if saved.may_be_hooked(getattr(node, f"_raw_saved_{name}", None)):
        return None
    return numbers_of(getattr(node, f"_saved_{name}"))
