"""Parameters that were used in reentrant checkpoints alone of which no input required gradients: nothing was recorded.

``torch.utils.checkpoint.CheckpointFunction`` runs its block under ``no_grad`` and is a node of the graph only where one
of the tensors that it is given requires gradients.
"""

from __future__ import annotations

from _thread import get_ident
from typing import Any

from graphdoc.capture.audit.stale import as_if
from graphdoc.capture.audit.watch import CLOSELY, ENOUGH, Open
from graphdoc.capture.events.journal import Seen
from graphdoc.capture.graph.autopsy import Autopsy
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of, site_of
from graphdoc.capture.tensors.facts import parameters_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.evidence import NO_GRAPH, Cut, Evidence, Sign

MOST_CALLS = 200
"""Such checkpoints of which it is seen which modules run in them."""


class Unrecorded(Open):
    """The evidence of a loss without a graph, for parameters of an optimizer that steps: they require gradients, their
    modules ran in such a checkpoint, and none of them was ever given a gradient since."""

    def set_up(self) -> None:
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.utils import checkpoint

        self._hooking, self._calls = register_module_forward_pre_hook, 0
        self._ran: dict[int, tuple[stacks.Stack, int]] = self._journal.living.forgetting({})
        """By the id of a parameter: the checkpoint, and how many of the calls that were looked at had reached it."""
        self._without: dict[int, tuple[set[int], int]] = {}
        """By optimizer: those of its parameters that had no gradient at so many steps."""
        self._told: list[Ref] = []
        self._audit.witness.watch(checkpoint, "checkpoint", "checkpoints", before=self._begins, after=self._ends)

    def wants(self, seen: Seen) -> bool:
        return bool(self._ran) and (self._evidence is not None or (seen.steps <= CLOSELY and not self._told))

    def _begins(self, _function: Any, reentrant: Any, *others: Any) -> Any:
        """A checkpoint is about to run; ``others`` end with the inputs and the further keywords."""
        torch = self._audit.torch
        if reentrant is False or self._calls >= MOST_CALLS or self._told or not torch.is_grad_enabled():
            return None
        with self._audit.witness.modes.left():
            if any(isinstance(a, torch.Tensor) and a.requires_grad for a in others[-2]):
                return None
        self._calls += 1
        ran, thread = list[Any](), get_ident()
        hook = self._hooking(lambda module, _: ran.append(module) if get_ident() == thread else None)
        return hook, ran, stacks.stack_here(2)  # _begins < checkpoint

    def _ends(self, token: Any) -> None:
        if token is None:
            return
        hook, ran, here = token
        hook.remove()
        audit = self._audit
        with audit.witness.modes.left():
            every = (p for module in ran for p in module._parameters.values() if p is not None and p.requires_grad)
            for p in every:
                audit.journal.living.note([p])
                self._ran.setdefault(id(p), (here, audit.reached.get(id(p), 0)))

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if self._told:
            self.evidence()  # while they live
            return
        mine = {id(p): p for p in parameters_of(optimizer) if id(p) in self._ran and self._is_without(p)}
        before, times = self._without.get(seen.id, (mine.keys(), 0))
        self._without[seen.id] = mine.keys() & before, times + 1
        last = self._journal.latest("backward")
        if mine.keys() & before and times + 1 == ENOUGH and last is not None:
            self._told = [Ref(mine[i]) for i in mine.keys() & before]
            self._tell(last.noted, {i: self._ran[i][0] for i in mine.keys() & before})

    def _is_without(self, parameter: Any) -> bool:
        """Whether it asks for gradients, and has had none since the checkpoint."""
        reached = self._audit.reached.get(id(parameter), 0) > self._ran[id(parameter)][1]
        return bool(parameter.requires_grad) and parameter.grad is None and not reached

    def _tell(self, noted: Any, mine: dict[int, stacks.Stack]) -> None:
        sign = Sign("cut-off", count=ENOUGH)
        places = {site_of(here): here for here in mine.values()}

        def add(evidence: Evidence, autopsy: Autopsy) -> None:
            names = autopsy.census.parameter_names
            evidence.failing_event = noted[0]
            for at, here in places.items():
                behind = sorted(names[i] for i, other in mine.items() if site_of(other) == at and i in names)
                evidence.cuts.append(Cut("no-grad", "checkpoint", frames_of(here, autopsy.cwd), behind=behind))
            sign.parameters = sorted(name for cut in evidence.cuts for name in cut.behind)
            evidence.extras["loss_terms"] = [[i] for i in range(len(evidence.cuts))]

        self._evidence = as_if(self._audit, noted, NO_GRAPH, sign, [], add=add)
        self._audit.tell_early()

    def evidence(self) -> Evidence | None:
        """None where the turn of one of them has come since: what ran before it may have been meant to be cut off."""
        alive = [p for ref in self._told if (p := ref()) is not None]
        if not all(id(p) in self._ran and self._is_without(p) for p in alive):
            self._evidence = None
        return self._evidence

    def signs(self) -> list[Sign]:
        told = self.evidence()
        return told.signs[:1] if told is not None else []
