"""Sums that hold a loss and are never differentiated: what is added there trains nobody."""

from __future__ import annotations

from itertools import islice
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, node_stacks
from graphdoc.capture.audit.growing import MOST_VALUES, values_at_hand
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.facts import grad_fn_of, user_frames
from graphdoc.capture.frames import frames_of, site_of
from graphdoc.capture.parts import Part
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import tensor_roots
from graphdoc.capture.summands import SUMS, terms_of, top_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.journal import Noted, Seen

FIRST, LAST = 2, 4
"""Steps of an optimizer before which the running functions' sums are looked at."""
MOST_CALLS = 2_000
MOST_LEFT = 4
"""Terms of one sum that are walked through."""


class BesideLoss(Watch):
    """``suspect-beside``, weak: ``stack`` is the sum, ``optimizer`` has stepped by the loss alone, and no later call
    goes through the sum or its other terms. A second run differentiates these."""

    def __init__(self, audit: Any) -> None:
        super().__init__(audit)
        self._roots: list[int] = []
        """Sequence numbers of what was differentiated."""
        self._known: dict[int, int] = {}
        """By optimizer: how many of them there were at its latest step."""
        self._through: set[int] = set()
        """Those of all that was added up in it."""
        self._seen: dict[Any, tuple[set[Any], Sign]] = {}
        """By the place of the sum: the places of its other terms too."""
        self._lines: set[Any] = set()
        """The places of all these calls."""

    def differentiated(self, noted: Noted, outputs: Any) -> None:
        """A call into the engine is about to run."""
        optimizers = self._audit.journal.optimizers.values()
        looks = len(self._roots) < MOST_CALLS and not (optimizers and all(seen.steps > LAST for seen in optimizers))
        if not looks and not self._seen:
            return
        roots = [n for n in tensor_roots(outputs) if n is not None]
        top = top_of(roots)
        made = _places(top) if self._seen else set()
        # The turn of a sum, or of one of its other terms, may come: a weight that grows from zero.
        self._seen = {at: kept for at, kept in self._seen.items() if at not in made and kept[0].isdisjoint(made)}
        line = site_of(event_stacks.stack_of_seen(noted[3]))
        if self._seen and line not in self._lines:
            # A line of its own, which runs now and then, may make the term anew.
            reached = set[int]().union(*(Part(n).leaves for n in roots))
            own = {seen.id for seen in optimizers if not reached.isdisjoint(seen.parameters)}
            self._seen = {at: kept for at, kept in self._seen.items() if kept[1].optimizer not in own}
        self._lines.add(line)
        if looks:
            self._roots += [n._sequence_nr() for n in roots]
            self._through |= {n._sequence_nr() for n in top}

    def stepped(self, seen: Seen) -> None:
        """An optimizer has stepped: which sums of what it was differentiated for are at hand?"""
        before, self._known[seen.id] = self._known.get(seen.id, 0), len(self._roots)
        audit, frame = self._audit, _getframe(1)
        if not FIRST <= seen.steps <= LAST or before == len(self._roots):
            return
        with Unseen(audit.torch, audit.witness.anomaly, frame):
            mine = set(self._roots[before:])
            for value, of_list in islice(values_at_hand(user_frames(frame), audit.torch), MOST_VALUES):
                node = None if of_list or value.numel() != 1 else grad_fn_of(value)
                left = self._lost(node, mine) if node is not None else []
                kept = node_stacks.stack_of(node) if left else None
                if kept is not None:
                    frames = frames_of(kept, audit.witness.cwd)
                    sign = Sign("suspect-beside", frames, optimizer=seen.id, count=seen.steps, weak=True)
                    through = [n for n in top_of([node]) if n._sequence_nr() in self._through]
                    self._seen.setdefault(site_of(kept), (_places(left) - _places(through), sign))

    def _lost(self, node: Any, mine: set[int]) -> list[Any]:
        """The terms of this sum that lead to parameters and that no call goes through; none where the sum holds none
        of these losses, or is part of one."""
        if type(node).__name__ not in SUMS or node._sequence_nr() in self._through:
            return []
        if mine.isdisjoint(n._sequence_nr() for n in top_of([node])):
            return []
        held = self._audit.journal.held()
        left = (t for t in terms_of([node]) if t._sequence_nr() not in self._through)
        return [t for t in islice(left, MOST_LEFT) if not Part(t).leaves.isdisjoint(held)]

    def signs(self) -> list[Sign]:
        return [sign for _, sign in self._seen.values()]


def _places(nodes: list[Any]) -> set[Any]:
    """Where these were made, as far as that was kept."""
    return {site_of(kept) for n in nodes if (kept := node_stacks.stack_of(n)) is not None}
