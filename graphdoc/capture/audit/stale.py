"""Parameters that were moved between a forward and its backward where no version counter tells.

``fused=True`` writes the parameters without raising their version (Adam, AdamW and SGD on a CPU, PyTorch 2.13), and so
does a write through ``.data``. The check that protects saved tensors does not see it, and the gradient belongs neither
to the old values nor to the new. Writes through ``.data`` are only seen by a second run (``HiddenWrites``).
"""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, walk
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.autopsy import Autopsy
from graphdoc.capture.calls import Glimpse
from graphdoc.capture.facts import grad_fn_of, parameters_of, storage_of, user_frames
from graphdoc.capture.frames import frames_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import STALE_UNSEEN, Evidence, Sign, Write

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen
    from graphdoc.capture.writes import HiddenWrites


class Stale(Watch):
    """``stale-parameter``: the backward at ``stack`` needs values from before a fused step; with ``facts["hidden"]``
    from before a write through ``.data`` at ``other``."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._fused: dict[int, tuple[Seen, set[int]]] = {}
        """By number: the optimizers whose steps are fused, and the memory of their parameters."""
        self._evidence: Evidence | None = None
        self._writes: HiddenWrites | None = None

    def watch(self, writes: HiddenWrites) -> None:
        """A second run shows every write."""
        self._writes = writes
        self._audit.witness.looking = True

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if self._writes is not None:
            self._writes.stepped(optimizer)
        groups = optimizer.param_groups
        if not isinstance(groups, list) or not any(group.get("fused") for group in groups):
            return
        _, memory = self._fused.get(seen.id, (seen, set()))
        if not memory or seen.steps <= 2:
            found = (storage_of(p) for p in parameters_of(optimizer) if p.grad is not None)
            self._fused[seen.id] = seen, {storage for storage in found if storage is not None}

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call is about to run."""
        if self._writes is not None:
            self._writes.called(leaves)
            self._audit.witness.looking = True
        if not (self._fused or self._writes) or self._evidence is not None:
            return
        roots = [root for root in (grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")) if root is not None]
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            old = any(self._moved(found) for found in walk.walk(roots, walk.DEEP - 1))
        if old:
            self._tell(noted, roots)

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
        def add(evidence: Evidence, autopsy: Autopsy, sign: Sign) -> None:
            hidden = self._writes.latest() if self._writes is not None else None
            self._add_steps(evidence, autopsy)
            if hidden is not None:
                sign.other, sign.facts = self._frames(hidden[1]), {"hidden": hidden[0]}
                for stale in evidence.stale:
                    stale.writes = [Write(hidden[0], self._frames(hidden[1]), version=1)]
            sign.parameters = sorted({s.tensor.name for s in evidence.stale if s.tensor.name})

        self._evidence = as_if(self._audit, noted, roots, STALE_UNSEEN, "stale-parameter", self._suspect, add)
        self._audit.tell_early()

    def _add_steps(self, evidence: Evidence, autopsy: Autopsy) -> None:
        """The latest fused step as what has written: it counts as no write anywhere else."""
        step = next((e for e in reversed(autopsy.entries) if e.kind == "step" and e.optimizer in self._fused), None)
        if step is None:
            return
        kind = next((o.type for o in evidence.optimizers if o.id == step.optimizer), "Optimizer")
        for stale in evidence.stale:
            stack = self._frames(step.raw)
            stale.writes = [Write(f"{kind}.step", stack, version=1, event=step.index)]

    def _suspect(self, order: walk.Graph) -> None:
        """Mark what the version counter does not: one version further, as another optimizer would have made it."""
        for found in order:
            if moved := self._moved(found):
                order.stale.setdefault(found.number, []).extend((name, 0, 1) for name in moved)

    def evidence(self) -> Evidence | None:
        """What was found, as the evidence of the failure that it would be."""
        return self._evidence

    def signs(self) -> list[Sign]:
        return self._evidence.signs[:1] if self._evidence is not None else []


def as_if(
    audit: Audit,
    noted: Noted,
    roots: list[Any],
    message: str,
    kind: str,
    suspect: Callable[[walk.Graph], None],
    add: Callable[[Evidence, Autopsy, Sign], None] = lambda *_: None,
) -> Evidence:
    """The evidence of a backward call that is about to run, as if PyTorch raised this message in it.

    Args:
        audit: whose program runs.
        noted: the call.
        roots: the nodes that it begins at.
        message: what would be raised.
        kind: that of the sign which tells of it.
        suspect: marks the nodes of the graph at which it would be raised.
        add: what else is known, put in before the program's own values are looked at.
    """
    witness, frame = audit.witness, _getframe(1)
    with Unseen(audit.torch, witness.anomaly, frame):
        evidence = witness.failures.begin(RuntimeError(message))
        assert evidence.raised is not None
        evidence.raised.uncaught = False
        evidence.raised.stack = frames_of(event_stacks.stack_of_seen(noted[3]), witness.cwd)
        autopsy = Autopsy(audit.torch, audit.journal, witness.cwd, user_frames(frame))
        autopsy.limit = walk.DEEP - 1
        autopsy.suspect = suspect
        autopsy.fill_program(evidence)
        entry = audit.journal.entry_of(noted, autopsy.entries, failed=False)
        autopsy.fill_graph(evidence, roots, None, "", entry)
        glimpse = Glimpse(audit.torch, witness.switches, audit.journal.count, None, "")
        sign = Sign(kind, evidence.raised.stack, event=noted[0], count=1)
        add(evidence, autopsy, sign)
        witness.failures.fill_extras(evidence, autopsy, glimpse)
        evidence.extras["failing_call"] = "backward"
        evidence.signs = [sign]
    return evidence
