"""Losses, and terms of losses, whose gradients nobody uses.

A generator's loss on detached images trains the discriminator alone, whose optimizer clears those gradients before it
steps; the step behind the loss is the generator's, and finds nothing. Told from the graph of the looked-at calls, from
who steps, and from what is cleared. A second run sees where the values were cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks
from graphdoc.capture.audit.terms import TermWatch
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import parameters_of
from graphdoc.capture.frames import site_of
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.parts import Part
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import tensor_roots
from graphdoc.capture.summands import terms_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.cut_records import Record
    from graphdoc.capture.journal import Noted, Seen


MOST_LOOKS = 16
"""Backward calls whose terms are walked through."""
MOST_TERMS = 20
MOST_WAITING = 20
LAST = 40
"""Steps of an optimizer after which nothing is waited for any more."""
ENOUGH = 2
"""Calls whose gradients were cleared before they were used."""


class Term:
    """One term of a loss: the ids of the leaves behind it, and the cuts behind its constants where those are seen."""

    def __init__(self, position: int, leaves: frozenset[int], cuts: list[Record]) -> None:
        self.position, self.leaves, self.cuts = position, leaves, cuts


class _Waiting:
    """A term that passes by the optimizer which has stepped for its loss, until it is known who uses it."""

    def __init__(self, seen: Seen, noted: Noted, term: Term, mine: frozenset[int], whole: bool) -> None:
        self.optimizer, self.noted, self.term, self.mine, self.whole = seen.id, noted, term, mine, whole
        self.key = (seen.id, site_of(event_stacks.stack_of_seen(noted[3])), term.position)
        self.left = set(term.leaves)
        """Those whose gradients may be used yet: not seen cleared since."""


class Unused(Watch):
    """``suspect-unused`` asks for a second run, which tells ``cut-off`` (the whole loss passes by its optimizer, whose
    parameters have never had a gradient) or ``cut-term`` (a term of it does) by ``Losses.tell_cut``."""

    def __init__(self, audit: Audit, watch: TermWatch | None) -> None:
        super().__init__(audit)
        self._watch = watch
        self._calls: list[tuple[Noted, list[Term]]] = []
        """The looked-at calls since the latest step."""
        self._waiting: list[_Waiting] = []
        self._held: set[int] = audit.journal.living.forgetting(set())
        """Ids of the parameters of optimizers that have stepped."""
        self._counts: dict[Any, int] = {}
        self._used: set[Any] = set()

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call is about to run."""
        self._settle(leaves)
        terms: list[Term] = []
        if not self._has_looked(MOST_LOOKS):
            self._looks += 1
            terms = self._terms(tensor_roots(outputs))
        self._calls.append((noted, terms))

    def _terms(self, roots: list[Any]) -> list[Term]:
        found = []
        for position, node in enumerate(terms_of(roots)[:MOST_TERMS]):
            part = Part(node)
            cuts = self._watch.cuts_behind(part.nodes.values()) if self._watch is not None else []
            found.append(Term(position, frozenset(part.leaves), cuts))
        return found

    def _settle(self, leaves: dict[int, Any]) -> None:
        """Another call reaches some of what such a term has reached: which of their gradients were cleared before?"""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.left = {i for i in one.left if i not in leaves or not self._is_clear(leaves[i])}
            if one.left:
                self._waiting.append(one)
            else:
                self._confirm(one)

    def _is_clear(self, parameter: Any) -> bool:
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None), self._audit.torch.no_grad():
            grad = parameter.grad
            if grad is None:
                return True
            numbers = numbers_of(grad) if grad.device.type != "cuda" else None
            return numbers is not None and not bool(numbers.any())

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        calls, self._calls = self._calls, []
        if seen.steps > LAST:
            self._waiting.clear()
        if not calls and not self._waiting:
            return
        every = parameters_of(optimizer)
        mine = frozenset(id(p) for p in every if p.requires_grad)
        self._held.update(mine)
        for one in self._waiting:
            if one.left & mine:
                self._used.add(one.key)
        self._waiting = [one for one in self._waiting if one.key not in self._used]
        if len(calls) != 1 or not mine or len(self._waiting) >= MOST_WAITING:
            return
        noted, terms = calls[0]
        whole = bool(terms) and not any(t.leaves & mine for t in terms)
        if whole and any(p.grad is not None or self._audit.journal.with_grad.get(id(p)) for p in every):
            return  # it uses what another call has left
        for term in terms:
            one = _Waiting(seen, noted, term, mine, whole)
            if term.leaves and not term.leaves & mine and one.key not in self._used:
                self._waiting.append(one)

    def _confirm(self, one: _Waiting) -> None:
        if one.key in self._used or not one.term.leaves <= self._held:
            return
        self._counts[one.key] = self._counts.get(one.key, 0) + 1
        if self._counts[one.key] < ENOUGH:
            return
        if self._watch is None:
            if not self._found:
                stack = self._call(one.noted)
                sign = Sign("suspect-unused", stack, event=one.noted[0], optimizer=one.optimizer, weak=True)
                sign.count = ENOUGH
                self._found.append(sign)
            return
        record = next((r for r in one.term.cuts if r.behind & one.mine), None)
        if record is not None:
            kind = "cut-off" if one.whole else "cut-term"
            behind = frozenset().union(*(r.behind for r in one.term.cuts)) & one.mine
            self._audit.losses.tell_cut(one.noted, kind, record, behind)
