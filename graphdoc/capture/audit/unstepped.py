"""Optimizers that are cleared again and again and never step: gradients are made for them and thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import frames_of, optimizer_functions
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.source_texts import lines_with
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Entry, Place, Seen

ENOUGH = 5
"""Times that gradients have been thrown away before anything is said."""

MOST_SAMPLED = 50
"""Parameters whose numbers are looked at, twice in a run."""


class Unstepped:
    """``step-missing``: ``stack`` is the backward call whose gradients no optimizer uses, ``other`` the call of
    ``zero_grad`` that throws those of this optimizer away. ``facts["alone"]``: they are for this optimizer only;
    ``facts["elsewhere"]`` are files of the program that speak of gradients."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._discards: dict[int, int] = {}
        self._values: dict[int, list[float]] = {}
        """What the parameters of such an optimizer held when it was first cleared."""
        self._found: dict[int, tuple[Seen, Sign]] = {}

    def zeroed(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer that has never stepped is about to be cleared."""
        count = self._discards.get(seen.id, 0)
        if count > ENOUGH:
            return
        parameters = parameters_of(optimizer)
        if not any(p.grad is not None for p in parameters):
            return
        if count == 0:
            self._values[seen.id] = self._sampled(parameters)
        self._discards[seen.id] = count + 1
        if count + 1 == ENOUGH and self._sampled(parameters) == self._values[seen.id]:
            self._judge(parameters, seen)

    def _sampled(self, parameters: list[Any]) -> list[float]:
        """A few numbers of each parameter: a program that updates them by itself may do so by ``.data``, of which the
        version counter knows nothing."""
        audit = self._audit
        out: list[float] = []
        with Unseen(audit.torch, audit.witness.anomaly, None), audit.torch.no_grad():
            for p in parameters[:MOST_SAMPLED]:
                numbers = numbers_of(p) if p.is_floating_point() else None
                if numbers is None:
                    out.append(0.0 if p.is_inference() else float(p._version))
                    continue
                flat = numbers.reshape(-1)
                out.append(float(flat[:: max(1, flat.numel() // 16)].double().sum()))
        return out

    def _judge(self, parameters: list[Any], seen: Seen) -> None:
        audit = self._audit
        if audit.witness.scaled():
            return  # a scaler leaves steps out as long as gradients overflow
        mine = {id(p) for p in parameters}
        entries = list(audit.journal.entries())
        own = [e for e in entries if e.kind == "backward" and e.reaches and e.reaches <= mine]
        alone = bool(own)
        own = own or self._unused(entries, mine)
        if not own or optimizer_functions(own[-1].raw):
            return  # others' losses pass through these parameters, or a step with a closure is under way
        here = stacks.stack_here(4)  # _judge < zeroed < Audit.zeroed < the inserted callback
        audit.snapshot()
        cwd = audit.witness.cwd
        names = sorted(audit.names[i] for i in mine if i in audit.names)
        sign = Sign("step-missing", frames_of(own[-1].raw, cwd), frames_of(here, cwd), None, names, seen.id)
        sign.event, sign.count, sign.facts["alone"] = audit.journal.count, ENOUGH, alone
        sign.facts["elsewhere"] = lines_with(b".grad", cwd)
        self._found[seen.id] = (seen, sign)
        audit.tell_early()

    def _unused(self, entries: list[Entry], mine: set[int]) -> list[Entry]:
        """The backward calls from one place that reach these parameters among others, and of which no step has used
        anything: each optimizer that stepped behind one had been cleared first.
        """
        held = {ident: {id(p) for p in parameters_of(o)} for ident, o in self._alive()}
        found: dict[Place, list[Entry]] = {}
        used: set[Place] = set()
        for at, e in enumerate(entries):
            if e.kind == "backward" and (e.reaches is None or e.reaches & mine):
                found.setdefault(e.place, []).append(e)
                if e.reaches is None or _used(e.reaches, entries[at + 1 :], held):
                    used.add(e.place)
        left = [calls for place, calls in found.items() if place not in used and len(calls) >= ENOUGH - 1]
        return left[0] if len(left) == 1 else []

    def _alive(self) -> list[tuple[int, Any]]:
        return [(ident, o) for ident, s in self._audit.journal.optimizers.items() if (o := s.ref()) is not None]

    def signs(self) -> list[Sign]:
        return [sign for seen, sign in self._found.values() if not seen.steps]


def _used(reaches: frozenset[int], later: list[Entry], held: dict[int, set[int]]) -> bool:
    """Whether a step behind a backward call may have used its gradients: its optimizer was not cleared in between."""
    cleared: set[int] = set()
    for e in later:
        if e.kind == "zero_grad":
            cleared.add(e.optimizer)
        elif (
            e.kind == "step" and e.optimizer not in cleared and (e.optimizer not in held or held[e.optimizer] & reaches)
        ):
            return True
    return False
