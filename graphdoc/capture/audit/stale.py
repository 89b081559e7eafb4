"""Losses that take values as they were before a step, where no version counter tells.

``fused=True`` writes the parameters without raising their version (Adam, AdamW and SGD on a CPU, PyTorch 2.13), and so
does a write through ``.data``. The check that protects saved tensors does not see it, and the gradient belongs neither
to the old values nor to the new. Writes through ``.data`` are only seen by a second run (``HiddenWrites``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture.audit.constants import COPIES
from graphdoc.capture.audit.watch import EngineCall, Watch
from graphdoc.capture.events.engine_calls import Glimpse
from graphdoc.capture.events.journal import Noted, Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places import stacks
from graphdoc.capture.process.quiet import Unseen
from graphdoc.capture.tensors.facts import grad_fn_of, instances_of, parameters_of, storage_of, user_frames
from graphdoc.evidence import STALE_UNSEEN, USED_AGAIN, Evidence, Sign, Write

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.second_run.writes import HiddenWrites


class Stale(Watch):
    """``stale-parameter``: the backward at ``stack`` needs values from before a fused step; with ``facts["hidden"]``
    from before a write through ``.data`` at ``other``."""

    def set_up(self) -> None:
        self._fused: dict[int, tuple[Seen, set[int]]] = {}
        """By number: the optimizers whose steps are fused, and the memory of their parameters."""
        self._writes: HiddenWrites | None = None

    def watch(self, writes: HiddenWrites) -> None:
        """A second run shows every write."""
        self._writes = writes
        self._audit.witness.looking = True

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if self._writes is not None:
            self._writes.stepped(optimizer)
        groups = optimizer.param_groups
        if not isinstance(groups, list) or not any(group.get("fused") for group in groups):
            return
        _, memory = self._fused.get(seen.id, (seen, set()))
        if not memory or seen.steps <= 2:
            found = (storage_of(p) for p in parameters_of(optimizer) if p.grad is not None)
            self._fused[seen.id] = seen, {storage for storage in found if storage is not None}

    def called(self, call: EngineCall) -> None:
        if self._writes is not None:
            self._writes.called(call.leaves)
            self._audit.witness.looking = True
        if not (self._fused or self._writes) or self._evidence is not None:
            return
        if any(map(self._moved, call.order)):
            self._tell(call.noted, [root for root in call.roots if root is not None])

    def _moved(self, found: walk.Found) -> list[str]:
        """The attributes in which a node has saved memory that a write has changed since, and no version tells."""
        out = [
            name
            for seen, memory in self._fused.values()
            if found.sequence < seen.sequence
            for name in walk.saved_in(found.node, memory)
        ]
        changed = self._writes.changed_since(found.sequence) if self._writes is not None else ()
        return out or (walk.saved_in(found.node, changed) if changed else [])

    def _tell(self, noted: Noted, roots: list[Any]) -> None:
        sign = Sign("stale-parameter", count=1)

        def add(evidence: Evidence, autopsy: Autopsy) -> None:
            hidden = self._writes.latest() if self._writes is not None else None
            # The latest fused step is what has written: it counts as no write anywhere else.
            steps = (e for e in reversed(autopsy.entries) if e.kind == "step" and e.optimizer in self._fused)
            step = next(steps, None)
            writes = list[Write]()
            if hidden is not None:
                sign.other, sign.facts = self._frames(hidden[1]), {"hidden": hidden[0]}
                writes = [Write(hidden[0], sign.other, version=1)]
            elif step is not None:
                kind = next((o.type for o in evidence.optimizers if o.id == step.optimizer), "Optimizer")
                writes = [Write(f"{kind}.step", self._frames(step.raw), version=1, event=step.index)]
            for stale in evidence.stale if writes else ():
                stale.writes = [replace(write) for write in writes]
            sign.parameters = sorted({s.tensor.name for s in evidence.stale if s.tensor.name})

        self._evidence = as_if(self._audit, noted, STALE_UNSEEN, sign, roots, self._suspect, add)
        self._audit.tell_early()

    def _suspect(self, order: walk.Graph) -> None:
        """Mark what the version counter does not: one version further, as another optimizer would have made it."""
        for found in order:
            if moved := self._moved(found):
                order.stale.setdefault(found.number, []).extend((name, 0, 1) for name in moved)


def as_if(
    audit: Audit,
    noted: Noted,
    message: str,
    sign: Sign,
    roots: list[Any],
    suspect: Callable[[walk.Graph], None] | None = None,
    add: Callable[[Evidence, Autopsy], None] = lambda *_: None,
) -> Evidence:
    """The evidence of a backward call that is about to run, as if PyTorch raised this message in it.

    Args:
        audit: whose program runs.
        noted: the call.
        message: what would be raised.
        sign: what tells of it; its place is that of the call.
        roots: the nodes that it begins at; none where it would be raised for want of a graph.
        suspect: marks the nodes of the graph at which it would be raised.
        add: what else is known, put in before the program's own values are looked at.
    """
    witness, frame = audit.witness, _getframe(1)
    with Unseen(audit.torch, witness.anomaly, frame):
        evidence, raised = witness.failures.begin(RuntimeError(message), stacks.stack_of_seen(noted[3]))
        raised.uncaught, sign.stack, sign.event = False, raised.stack, noted[0]
        autopsy = Autopsy(witness, user_frames(frame))
        autopsy.fill_program(evidence)
        if suspect is not None:
            autopsy.limit = walk.DEEP - 1
            autopsy.suspect = suspect
            entry = audit.journal.entry_of(noted, autopsy.entries, failed=False)
            autopsy.fill_graph(evidence, roots, None, "", entry)
        add(evidence, autopsy)
        witness.failures.fill_extras(evidence, autopsy, Glimpse(witness))
        evidence.signs = [sign]
    return evidence


# Values that were computed once from parameters which are stepped, and which every later loss takes as they were
# then. Where such a computation saves tensors the second backward call raises. Where it saves none (a cast, a sum)
# nothing does: autograd goes through the same nodes again, and the loss never sees what the steps have changed.

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

    def set_up(self) -> None:
        self._steps: dict[int, _Steps] = {}
        """By optimizer."""
        self._used: set[Any] = set()
        """Such nodes in the graph that was looked at last, kept for the next look. Their sequence numbers do not tell
        them from others: each thread counts from 0."""
        self._stepped = False

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if self._looks >= MOST_LOOKS:
            return
        held = parameters_of(optimizer)
        known = self._steps.setdefault(seen.id, _Steps(seen))
        known.numbers = [*known.numbers, seen.sequence][-2:]
        torch = self._audit.torch
        on = torch.is_autocast_cache_enabled() and any(torch.is_autocast_enabled(p.device.type) for p in held[:1])
        known.cast = known.cast and on
        known.moved = {id(p) for p in held if p.grad is not None}
        self._stepped = True

    def called(self, call: EngineCall) -> None:
        since = max((s.numbers[0] for s in self._steps.values() if len(s.numbers) == 2), default=-1)
        if since < 0 or not self._stepped or self._looks >= MOST_LOOKS or self._evidence is not None or self._found:
            return
        self._stepped = False
        self._looks += 1
        if not any(sequence < since for sequence in call.order.sequences):
            self._used.clear()
            return
        found = list(self._taken(call.order))
        again = [(f, steps) for f, steps in found if f.node in self._used]
        self._used = {f.node for f, _ in found if self._looks < MOST_LOOKS}
        if again:
            self._tell(call.noted, call.roots, again)

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
        # Where the results of these nodes stand, as far as the program holds them
        nodes = {f.node for f, _ in again}
        every = ((o, grad_fn_of(o)) for o in instances_of(self._audit.torch.Tensor))
        held = {node: storage_of(o) for o, node in every if node in nodes}
        casts = [(f, s) for f, s in again if f.op == _CAST and f.node not in held and s.cast]
        if casts:
            self._tell_casts(noted, casts)
            return
        memory = {storage_of(p) for _, s in again for o in s.seen.known() for p in parameters_of(o)}
        own = {f.node for f, _ in again if f.op in COPIES or held.get(f.node) not in (*memory, None)}
        if own:
            sign = Sign("computed-once", count=1)

            def release(order: walk.Graph) -> None:
                """Mark these nodes as those are which a backward call has freed."""
                for number in order.numbers_of(own).values():
                    order.released[number] = 1

            self._evidence = as_if(self._audit, noted, USED_AGAIN, sign, roots, release)
            self._audit.tell_early()

    def _tell_casts(self, noted: Noted, casts: list[tuple[walk.Found, _Steps]]) -> None:
        first, steps = min(casts, key=lambda pair: pair[0].sequence)
        kept = stacks.stack_of(first.node)
        if kept is None:
            return
        leaves = {id(n.variable) for f, _ in casts for n, _ in f.node.next_functions if hasattr(n, "variable")}
        step, optimizer = self._latest_step(steps.seen), steps.seen.id
        facts = {"event": noted[0], "count": steps.seen.steps}
        self._report(self._sign("cast-once", kept, step, leaves, optimizer=optimizer, **facts))
