"""Values that were computed once from parameters which are stepped, and which every later loss takes as they were then.

Where such a computation saves tensors the second backward call raises. Where it saves none (a cast, a sum) nothing
does: autograd goes through the same nodes again, and the loss never sees what the steps have changed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from graphdoc.capture import node_stacks, walk
from graphdoc.capture.audit.references import COPIES
from graphdoc.capture.audit.stale import as_if
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import grad_fn_of, parameters_of, storage_of
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import tensor_roots
from graphdoc.evidence import USED_AGAIN, Evidence, Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen

MOST_LOOKS = 6
"""Backward calls, each after another step, whose graph is walked through."""
_CAST = "ToCopyBackward0"


class _Steps:
    """The latest two steps of an optimizer: autograd's sequence numbers, whether autocast was on at all of its steps,
    and the ids of the parameters that the latest one had gradients of."""

    def __init__(self, seen: Seen) -> None:
        self.seen, self.numbers, self.cast, self.moved = seen, list[int](), True, set[int]()


class Once(Watch):
    """``computed-once``: the backward call at ``stack`` takes values that are older than two steps of the parameters
    they were computed from, as the call before it did.

    ``cast-once``: these are what autocast has kept of each parameter: ``stack`` is where it was cast, ``other`` the
    latest step, which ran inside of the region.
    """

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._steps: dict[int, _Steps] = {}
        """By optimizer."""
        self._used: set[Any] = set()
        """Such nodes in the graph that was looked at last, kept for the next look. Their sequence numbers do not tell
        them from others: each thread counts from 0."""
        self._stepped = False
        self._evidence: Evidence | None = None

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if self._looks >= MOST_LOOKS:
            return
        held = parameters_of(optimizer)
        known = self._steps.setdefault(seen.id, _Steps(seen))
        known.numbers = [*known.numbers, seen.sequence][-2:]
        known.cast = known.cast and self._casts(held)
        known.moved = {id(p) for p in held if p.grad is not None}
        self._stepped = True

    def _casts(self, held: list[Any]) -> bool:
        """Whether autocast is on for these, and keeps what it casts."""
        torch = self._audit.torch
        return torch.is_autocast_cache_enabled() and any(torch.is_autocast_enabled(p.device.type) for p in held[:1])

    def called(self, noted: Noted, outputs: Any) -> None:
        """A backward call that is looked at is about to run."""
        since = max((s.numbers[0] for s in self._steps.values() if len(s.numbers) == 2), default=-1)
        if since < 0 or not self._stepped or self._looks >= MOST_LOOKS or self._evidence is not None or self._found:
            return
        self._stepped = False
        self._looks += 1
        roots = tensor_roots(outputs)
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            behind = islice(walk.nodes_behind(roots), walk.DEEP - 1)
            if not any(node._sequence_nr() < since for node, _ in behind):
                self._used.clear()
                return
            order = walk.walk(roots, walk.DEEP - 1)
            found = list(self._taken(order))
        again = [(f, steps) for f, steps in found if f.node in self._used]
        self._used = {f.node for f, _ in found if self._looks < MOST_LOOKS}
        if again:
            self._tell(noted, roots, again)

    def _taken(self, order: walk.Graph) -> Iterator[tuple[walk.Found, _Steps]]:
        """The nodes that were made of a parameter before the latest two steps of its optimizer, with that optimizer."""
        above = walk.Above(order)
        for steps in self._steps.values():
            todo = [n for n, leaf in order.leaves.items() if len(steps.numbers) == 2 and id(leaf) in steps.moved]
            for number in todo:
                for n in above[number]:
                    if order.op(n) in walk.VIEWS:
                        todo.append(n)  # shows what the parameter holds now
                    elif order.sequences[n] < steps.numbers[0]:
                        yield order[n], steps

    def _tell(self, noted: Noted, roots: list[Any], again: list[tuple[walk.Found, _Steps]]) -> None:
        """Of each of these nodes it must be known that its result is no view: by its name, or by who holds it."""
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            held = _results({f.node for f, _ in again}, self._audit.torch.Tensor)
        casts = [(f, s) for f, s in again if f.op == _CAST and f.node not in held and s.cast]
        if casts:
            self._tell_casts(noted, casts)
            return
        memory = {storage_of(p) for _, s in again for o in s.seen.known() for p in parameters_of(o)}
        own = {f.node for f, _ in again if f.op in COPIES or held.get(f.node, None) not in (*memory, None)}
        if own:
            self._evidence = as_if(
                self._audit, noted, roots, USED_AGAIN, "computed-once", lambda order: _release(order, own)
            )
            self._audit.tell_early()

    def _tell_casts(self, noted: Noted, casts: list[tuple[walk.Found, _Steps]]) -> None:
        first, steps = min(casts, key=lambda pair: pair[0].sequence)
        kept = node_stacks.stack_of(first.node)
        if kept is None:
            return
        leaves = {id(n.variable) for f, _ in casts for n, _ in f.node.next_functions if hasattr(n, "variable")}
        self._audit.snapshot()
        sign = Sign(
            "cast-once", self._frames(kept), self._latest_step(steps.seen), optimizer=steps.seen.id, event=noted[0]
        )
        sign.parameters, sign.count = self._audit.named(leaves), steps.seen.steps
        self._report(sign)

    def evidence(self) -> Evidence | None:
        """What was found, as the evidence of the failure that it would be."""
        return self._evidence

    def signs(self) -> list[Sign]:
        return self._evidence.signs[:1] if self._evidence is not None else self._found


def _results(nodes: set[Any], kind: type) -> dict[Any, int | None]:
    """Where the results of these nodes stand, as far as the program holds them."""
    every = ((o, grad_fn_of(o)) for o in gc.get_objects() if kind in type(o).__mro__)
    return {node: storage_of(o) for o, node in every if node in nodes}


def _release(order: walk.Graph, nodes: set[Any]) -> None:
    """Mark these nodes as those are which a backward call has freed."""
    for number in order.numbers_of(nodes).values():
        order.released[number] = 1
