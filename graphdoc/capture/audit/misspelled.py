"""Parameters with an attribute that was to be ``requires_grad`` and is spelled otherwise: ``p.require_grad = False``.

A tensor takes any attribute, and nothing reads this one. Told where an optimizer trains what it was to freeze.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

JUDGED = 3
"""The step of an optimizer at which what has contradicted from the first one on is told."""
FLAG = "requires_grad"
_ALIKE = re.compile(r"_?requ[a-z]{1,5}_?grad(s|ient|ients)?", re.IGNORECASE)


class Misspelled:
    """``misspelled-flag``: ``parameters`` carry ``facts["attribute"]`` with ``facts["value"]``, and do otherwise."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._first: dict[int, dict[int, str]] = {}
        """By optimizer: the attribute of such parameters by their ids."""
        self._found: list[Sign] = []

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.steps == 1:
            known = {id(p): name for p in parameters_of(optimizer) if (name := _other_flag(p))}
            if known:
                self._first[seen.id] = known
        elif seen.steps == JUDGED and seen.id in self._first:
            known = self._first.pop(seen.id)
            still = [p for p in parameters_of(optimizer) if _other_flag(p) and known.get(id(p)) == _other_flag(p)]
            if still and not self._found:
                self._tell(seen, still, _other_flag(still[0]))

    def _tell(self, seen: Seen, parameters: list[Any], attribute: str) -> None:
        audit = self._audit
        audit.snapshot()
        step = audit.journal.latest("step", seen.id)
        sign = Sign("misspelled-flag", frames_of(step.raw, audit.witness.cwd) if step is not None else [])
        value = parameters[0].__dict__[attribute]
        mine = [p for p in parameters if p.__dict__.get(attribute) is value]
        sign.parameters = sorted(audit.names[id(p)] for p in mine if id(p) in audit.names)
        sign.optimizer, sign.count = seen.id, seen.steps
        sign.facts = {"attribute": attribute, "value": value, "stops": [] if value else sign.parameters}
        self._found.append(sign)
        audit.tell_early()

    def signs(self) -> list[Sign]:
        """What was found; nothing takes it back."""
        return self._found


def _other_flag(parameter: Any) -> str:
    """The name of such an attribute, where its value is the opposite of what the parameter does; else empty."""
    for name, value in (getattr(parameter, "__dict__", None) or {}).items():
        if type(value) is bool and value is not parameter.requires_grad and _is_alike(name):
            return str(name) if value or parameter.grad is not None else ""
    return ""


def _is_alike(name: Any) -> bool:
    return type(name) is str and name != FLAG and _ALIKE.fullmatch(name) is not None
