"""Who holds the output of a node of the graph, or what was made in its place since."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from graphdoc.capture.facts import grad_fn_of
from graphdoc.capture.frames import site_of
from graphdoc.evidence import Holder

if TYPE_CHECKING:
    from graphdoc.capture.autopsy import Autopsy

MOST_HOLDERS = 24
"""Ways told to reach the output of one node."""
MOST_ALIKE = 100
"""Tensors of one place that are looked at for them."""


class OutputHolders:
    """Answers for one examination; the program's tensors are sorted at the first question."""

    def __init__(self, seen: Autopsy) -> None:
        self._seen = seen
        self._sites: dict[tuple[Any, ...], list[Any]] | None = None
        self._outputs: dict[int, tuple[Any, list[Any]]] = {}
        self._known: dict[tuple[Any, ...], list[Holder]] = {}

    def of(self, node: Any, taken_by: Any = None) -> list[Holder]:
        """Who holds the output of this node; else who holds what was made at the same place later.

        What a loop goes through has another name that keeps it. Of several outputs (``chunk``, ``unbind``)
        only those that the node ``taken_by`` takes, where one is given.
        """
        if self._sites is None:
            self._look_at_tensors()
        census, cwd = self._seen.census, self._seen.cwd
        taken = {n for other, n in (taken_by.next_functions if taken_by is not None else ()) if other is node}
        _, outputs = self._outputs.get(id(node), (None, ()))
        own = [t for t in outputs if not taken or t.output_nr in taken]
        out = [h for tensor in own for h in census.holders(id(tensor), True, cwd, passing=False)]
        if not out:
            out = self._made_alike(node, taken)
        out.sort(key=_plainness)
        return out[:MOST_HOLDERS]

    def renewed(self, node: Any, holders: list[Holder], mark: int) -> bool:
        """Whether what is held in place of this node's output was made where it was, behind the earlier call."""
        if not holders or any(h.exact for h in holders) or self._sites is None:
            return False
        alike = self._sites.get((node.name(), *site_of(self._seen.raw_stack(node))), ())
        made = (grad_fn_of(tensor) for tensor in alike)
        return any(m is not None and m._sequence_nr() >= mark for m in made)

    def _look_at_tensors(self) -> None:
        """Sort the program's tensors by the node that made them, and by the place of that node."""
        self._sites = {}
        for tensor in self._seen.census.tensors.values():
            made = grad_fn_of(tensor)
            if made is not None:
                self._outputs.setdefault(id(made), (made, []))[1].append(tensor)
                raw = self._seen.raw_stack(made)
                if raw:
                    self._sites.setdefault((made.name(), *site_of(raw)), []).append(tensor)

    def _made_alike(self, node: Any, taken: set[int]) -> list[Holder]:
        """Who holds what was made where this node was: asked for many nodes of one place, worked out once for it.

        Of very many tensors only those are looked at that the fewest steps lead to.
        """
        assert self._sites is not None
        site = (node.name(), *site_of(self._seen.raw_stack(node)))
        known = self._known.get((*site, *taken))
        if known is None:
            census = self._seen.census
            alike = [t for t in self._sites.get(site, ()) if not taken or t.output_nr in taken]
            nearest = heapq.nsmallest(MOST_ALIKE, alike, key=lambda t: census.nearest(id(t)))
            known = [h for t in nearest for h in census.holders(id(t), False, self._seen.cwd, passing=False)]
            self._known[(*site, *taken)] = known
        return list(known)


def _plainness(holder: Holder) -> tuple[int, int]:
    return len(holder.steps), len(holder.path)
