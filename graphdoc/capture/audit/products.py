"""Products with a Hessian that are zero: a gradient was taken with ``create_graph``, and its own gradient is nothing.

Whether two parts of it took each other away, a second run tells (see ``graphdoc.capture.one_side``).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, node_stacks, stacks
from graphdoc.capture.frames import frames_of
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import roots_of_call
from graphdoc.capture.walk import nodes_behind
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted
    from graphdoc.capture.one_side import OneSide

ENOUGH = 3
"""Products that were looked at, and all of them zero."""
NOTHING = 1e-5
"""No more than rounding leaves of numbers about one; only a reason to look closer."""
MOST_NODES = 2_000


class Products:
    """``suspect-product``: ``stack`` is the ``grad`` call whose results are zero, each time that it was looked at."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._first: tuple[Noted, frozenset[int]] | None = None
        """The latest call with ``create_graph``, and the ids of its inputs."""
        self.waits = False
        """Whether the call of a product runs now."""
        self._second: Noted | None = None
        self._zeros = 0
        self._over = False
        self._latest: Noted | None = None
        self.closely: OneSide | None = None
        """Who looks at such calls in a second run."""

    def asked(self, noted: Noted, outputs: Any, args: tuple[Any, ...]) -> None:
        """A grad call that is looked at is about to run; ``args`` are those of the engine: gradients to start from,
        ``retain_graph``, ``create_graph``, inputs."""
        self.waits = False
        if self._over or len(args) < 4:
            return
        given, _, recorded, inputs = args[:4]
        asked = frozenset(map(id, inputs if isinstance(inputs, list | tuple) else ()))
        if recorded:
            self._first = noted, asked
            if self.closely is not None:
                self.closely.recorded(noted, outputs, given, inputs)
        elif self._first is not None and asked and asked <= self._first[1] and self._differentiates(outputs):
            self._second, self.waits = noted, True

    def _differentiates(self, outputs: Any) -> bool:
        """Whether a gradient that was recorded lies behind these."""
        engine = self._audit.witness.calls.code
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            for node, _ in islice(nodes_behind(roots_of_call(outputs)), MOST_NODES):
                kept = node_stacks.kept_in(node)
                if isinstance(kept, stacks.Stack) and node_stacks.made_in_backward(kept, engine):
                    return True
        return False

    def gave(self, noted: Noted, results: Any) -> None:
        """A grad call has ended well."""
        if noted is not self._second:
            return
        self.waits = False
        audit, torch = self._audit, self._audit.torch
        with Unseen(torch, audit.witness.anomaly, None), torch.no_grad():
            numbers = [numbers_of(r) for r in results if r is not None and r.numel()]
            zero = bool(numbers) and all(n is not None and float(n.abs().max()) <= NOTHING for n in numbers)
        if not zero:
            self._over = True  # somewhere it bends
            return
        self._zeros += 1
        self._latest = noted
        self._over = self._zeros >= ENOUGH

    def signs(self) -> list[Sign]:
        if self.closely is not None:
            return self.closely.signs()
        if self._zeros < ENOUGH or self._latest is None:
            return []
        stack = frames_of(event_stacks.stack_of_seen(self._latest[3]), self._audit.witness.cwd)
        return [Sign("suspect-product", stack, event=self._latest[0], count=self._zeros, weak=True)]
