"""Parameters that are stepped and enter nothing but an inner loss, whose gradient was taken without ``create_graph``.

A first-order inner step is nothing by itself: the outer loss reaches the parameters that were adapted as it would with
``create_graph``. What enters the inner loss alone has no other way to the outer one than through that gradient.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen

ENOUGH = 4
"""Steps of an optimizer after which its parameters are judged."""
OFTEN = 2
"""Inner gradients that a parameter has entered by then."""
MOST_FOLLOWED = 2_000


class _Entered:
    """A parameter in the losses of inner gradients, by whose latest call it is told."""

    __slots__ = ("count", "noted", "ref")

    def __init__(self, parameter: Any, noted: Noted) -> None:
        self.ref = weakref.ref(parameter)
        self.noted = noted
        self.count = 0


class Inner:
    """``inner-only``: ``stack`` is the latest such ``grad`` call, ``other`` the latest backward call, ``parameters``
    what no backward call has reached. Whether the gradient enters that call's loss, the source has to tell."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._entered: dict[int, _Entered] = {}
        self._excused: set[int] = set()
        """Parameters that a gradient was asked for, or that entered one with ``create_graph``."""
        self._found: list[tuple[list[Any], Sign]] = []

    def asked(self, noted: Noted, leaves: dict[int, Any], recorded: bool, inputs: Any) -> None:
        """A grad call that is looked at is about to run; ``leaves`` are those behind its roots, by id."""
        if recorded:
            self._excused.update(leaves)
            return
        self._excused.update(map(id, inputs if isinstance(inputs, list | tuple) else ()))
        kind = self._audit.torch.nn.Parameter
        for ident, leaf in leaves.items():
            if type(leaf) is not kind:
                continue
            entered = self._entered.get(ident)
            if entered is None or entered.ref() is not leaf:
                if len(self._entered) >= MOST_FOLLOWED:
                    continue
                entered = self._entered[ident] = _Entered(leaf, noted)
            entered.noted = noted
            entered.count += 1

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.steps != ENOUGH or not self._entered:
            return
        audit = self._audit
        mine = [p for p in parameters_of(optimizer) if self._is_missed(p)]
        last = audit.journal.latest("backward")
        if not mine or last is None:
            return
        audit.snapshot()
        cwd = audit.witness.cwd
        noted = self._entered[id(mine[0])].noted
        sign = Sign("inner-only", frames_of(event_stacks.stack_of_seen(noted[3]), cwd), frames_of(last.raw, cwd))
        sign.parameters = sorted(audit.names[id(p)] for p in mine if id(p) in audit.names)
        sign.optimizer, sign.event, sign.count = seen.id, noted[0], ENOUGH
        sign.facts = {"outer": last.index}
        self._found.append(([weakref.ref(p) for p in mine], sign))
        audit.tell_early()

    def _is_missed(self, parameter: Any) -> bool:
        """Whether a parameter has entered inner losses and no other."""
        ident, audit = id(parameter), self._audit
        entered = self._entered.get(ident)
        same = entered is not None and parameter is not None and entered.ref() is parameter
        if not same or entered.count < OFTEN or ident in self._excused:  # type: ignore[union-attr]
            return False
        had = parameter.grad is not None or audit.journal.with_grad.get(ident)
        return bool(parameter.requires_grad and not had and ident not in audit.reached)

    def signs(self) -> list[Sign]:
        """What is still so: a later phase may have trained them."""
        return [
            sign
            for refs, sign in self._found
            if sign.parameters and all(self._is_missed(p) for ref in refs if (p := ref()) is not None)
        ]
