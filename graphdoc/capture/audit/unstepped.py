"""Optimizers that are cleared again and again and never step: gradients are made for them and thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

ENOUGH = 5
"""Times that gradients have been thrown away before anything is said."""


class Unstepped:
    """``step-missing``: ``stack`` is the backward call whose gradients are for this optimizer alone, ``other`` the call
    of ``zero_grad`` that throws them away."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._discards: dict[int, int] = {}
        self._versions: dict[int, int] = {}
        self._found: dict[int, tuple[Seen, Sign]] = {}

    def zeroed(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer that has never stepped is about to be cleared."""
        count = self._discards.get(seen.id, 0)
        if count > ENOUGH:
            return
        parameters = parameters_of(optimizer)
        if not any(p.grad is not None for p in parameters):
            return
        version = sum(p._version for p in parameters if not p.is_inference())
        if self._versions.setdefault(seen.id, version) != version:
            count = self._discards[seen.id] = ENOUGH  # the program updates them by itself
        self._discards[seen.id] = count + 1
        if count + 1 == ENOUGH:
            self._judge(parameters, seen)

    def _judge(self, parameters: list[Any], seen: Seen) -> None:
        audit = self._audit
        if audit.witness.scaled():
            return  # a scaler leaves steps out as long as gradients overflow
        mine = {id(p) for p in parameters}
        own = [e for e in audit.journal.entries() if e.kind == "backward" and e.reaches and e.reaches <= mine]
        if not own or any("/torch/optim/" in str(code.co_filename) for code in own[-1].raw.raw[::2]):
            return  # others' losses pass through these parameters, or a step with a closure is under way
        here = stacks.stack_here(4)  # _judge < zeroed < Audit.zeroed < the woven function's callback
        audit.snapshot()
        cwd = audit.witness.cwd
        names = sorted(audit.names[i] for i in mine if i in audit.names)
        sign = Sign("step-missing", frames_of(own[-1].raw, cwd), frames_of(here, cwd), None, names, seen.id)
        sign.event, sign.count = audit.journal.count, ENOUGH
        self._found[seen.id] = (seen, sign)
        audit.tell_early()

    def signs(self) -> list[Sign]:
        return [sign for seen, sign in self._found.values() if not seen.steps]
