"""Parameters that an optimizer holds and that enter the loss only where a straight-through sum detaches them.

In ``x + (z - x).detach()`` the value is that of ``z`` and the gradient that of ``x``. What ``z`` was looked up in, a
codebook perhaps, needs a loss of its own, on ``z``. Looked at in a run that graphdoc starts by itself.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.audit.hidden import inside
from graphdoc.capture.code_places import is_user_file, shown_file
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import BYPASSED, Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Seen

MOST_MODULES = 40
ENOUGH = 2
"""Steps between which the values of such a parameter have stayed what they were: nobody updates it by hand."""


class Bypassed:
    """``bypassed``: ``stack`` is the sum, ``parameters`` those that receive nothing, ``optimizer`` holds them;
    ``other`` is the latest backward call."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._values: dict[int, tuple[float, int]] = {}
        """By parameter: a sum over its values, and in how many steps that was the same."""
        self.found: list[Sign] = []

    def stepped(
        self, optimizer: Any, seen: Seen, missed: set[int], sums: dict[Any, tuple[stacks.Stack, frozenset[int]]]
    ) -> None:
        """An optimizer has stepped without ever having reached ``missed``."""
        audit = self._audit
        met = {i for _, behind in sums.values() for i in behind} & missed
        if not met or self.found:
            return
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            for p in parameters_of(optimizer):
                if id(p) in met and (numbers := numbers_of(p)) is not None:
                    total = float(numbers.double().abs().sum())
                    known, count = self._values.get(id(p), (total, 0))
                    self._values[id(p)] = (total, count + 1 if known == total else -ENOUGH)
        still = {i for i in met if self._values.get(i, (0.0, 0))[1] >= ENOUGH}
        last = audit.journal.latest("backward")
        if not still or last is None:
            return
        audit.snapshot()
        at = next(here for here, behind in sums.values() if behind & still)
        sign = Sign(BYPASSED, frames_of(at, audit.witness.cwd), frames_of(last.raw, audit.witness.cwd))
        sign.parameters = sorted(audit.names[i] for i in still if i in audit.names)
        sign.optimizer, sign.event, sign.count = seen.id, last.index, seen.steps
        self.found.append(sign)
        audit.tell_early()


def forwards_of(torch: Any, parameters: set[int], cwd: str) -> list[dict[str, Any]]:
    """Where the program's own modules that contain these parameters begin their forward: a place as it is told."""
    found: dict[Any, dict[str, Any]] = {}
    for module in gc.get_objects():
        if torch.nn.Module not in type(module).__mro__ or len(found) >= MOST_MODULES:
            continue
        code = getattr(type(module).forward, "__code__", None)
        if code is None or code in found or not is_user_file(code.co_filename):
            continue
        if any(id(p) in parameters for p in inside(module)):
            found[code] = {"file": shown_file(code.co_filename, cwd), "line": code.co_firstlineno}
    return list(found.values())
