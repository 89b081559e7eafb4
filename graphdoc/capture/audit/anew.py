"""Layers that a forward makes anew: their parameters get gradients once, and are gone before a step could use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import node_stacks, walk
from graphdoc.capture.audit.hidden import held_beside
from graphdoc.capture.audit.unheld import alive
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import grad_fn_of
from graphdoc.capture.living import Ref
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted

ENOUGH = 4
"""Backward calls, each of which reaches new ones of the same shapes, the earlier ones being gone."""
MOST_NODES = walk.DEEP - 1


class MadeAnew(Watch):
    """``made-anew``: ``stack`` is the operation that takes a new parameter together with what an optimizer trains,
    ``other`` the backward call, ``facts["shapes"]`` those of the new parameters. What such a layer computes from data
    alone may be meant to be random."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._latest: list[Ref] = []
        self._shapes: list[list[int]] = []
        self._owners: list[Ref] = []
        """The modules that had the new ones of the call before the one that is judged."""
        self._times = 0
        self._wanted: set[tuple[int, ...]] = set()
        """Shapes of parameters whose gradients the program has asked for itself."""

    def asked(self, inputs: Any) -> None:
        """A grad call that is looked at is about to run: a head that is adapted to one task by it is used up there."""
        given = inputs if isinstance(inputs, list | tuple) else ()
        self._wanted.update(tuple(p.shape) for p in given if type(p) is self._audit.torch.nn.Parameter)

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call that is looked at is about to run."""
        if self._found:
            return
        audit = self._audit
        held, kind = audit.journal.held(stepped=True), audit.torch.nn.Parameter
        if not held:
            return
        known = {id(p) for ref in self._latest if (p := ref()) is not None}
        new = [p for i, p in leaves.items() if i not in held and i not in known and type(p) is kind]
        shapes = sorted(list(p.shape) for p in new)
        again = bool(new) and not known and shapes == self._shapes
        self._times = self._times + 1 if again else 0
        self._latest, self._shapes = [Ref(p) for p in new], shapes
        if self._times < ENOUGH - 1 or not self._wanted.isdisjoint(map(tuple, shapes)):
            return
        with Unseen(audit.torch, audit.witness.anomaly, None):
            given, owners = alive(audit.torch)
            own = [owners[id(p)] for p in new if id(p) in owners]
            before = {id(m) for ref in self._owners if (m := ref()) is not None}
            self._owners = [Ref(m) for m in own]
            if self._times == ENOUGH:
                self._times = 0
                # A module that was there before is not made anew: it is given another parameter.
                if before.isdisjoint(map(id, own)):
                    self._judge(noted, outputs, {id(p) for p in new}, held, given, owners)

    def _judge(
        self, noted: Noted, outputs: Any, new: set[int], held: set[int], given: set[int], owners: dict[int, Any]
    ) -> None:
        audit = self._audit
        module = audit.torch.nn.Module
        # A copy that a loop keeps and adapts is no part of what is trained; one that is gone was made by a forward.
        if new & given or any(i in owners and not held_beside([owners[i]], held, module) for i in new):
            return
        taken = _taken_with([n for t in outputs if (n := grad_fn_of(t)) is not None], new, held)
        kept = node_stacks.stack_of(taken.node) if taken is not None else None
        if kept is None:
            return
        audit.snapshot()
        sign = Sign("made-anew", self._frames(kept), self._call(noted))
        sign.event, sign.count = noted[0], ENOUGH + 1
        sign.facts = {"shapes": self._shapes}
        self._report(sign)


def _taken_with(roots: list[Any], new: set[int], held: set[int]) -> walk.Found | None:
    """The first operation in the program that takes one of the new leaves, where all of these take them together with
    what is made of held ones."""
    order = walk.walk(roots, MOST_NODES)
    if len(order) >= MOST_NODES:
        return None
    above = walk.Above(order)
    trained = walk.gather(order, ((n, 1) for n, leaf in order.leaves.items() if id(leaf) in held))
    leaves = [f.number for f in order if f.leaf is not None and id(f.leaf) in new]
    taking = {n for leaf in leaves for n in _taking(leaf, order, above)}
    if not all(trained[n] for n in taking):
        return None  # what is applied to data as well measures how far two values are apart
    return min((order[n] for n in taking), key=lambda f: f.sequence, default=None)


def _taking(leaf: int, order: walk.Graph, above: walk.Above) -> list[int]:
    """The operations that take a leaf, transposed perhaps, together with something else."""
    return [
        m for n in above[leaf] for m in ([n] if len(order[n].node.next_functions) > 1 else _taking(n, order, above))
    ]
