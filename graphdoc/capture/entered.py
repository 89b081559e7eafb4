"""In a second run, which values without a graph went into something that has one, and what became of them.

Such a value is a constant for autograd: one that was taken out of its graph, one that is let require gradients only
afterwards, one that was drawn at random.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable
from itertools import islice
from typing import Any

import torch

from graphdoc.capture import node_stacks, stacks
from graphdoc.capture.containers import elements
from graphdoc.capture.cut_records import Record, records_behind

MOST_ENTERED = 30_000
"""Values that went in, the latest."""
MOST_TAKEN = 64
"""Inputs of an operation that are looked at."""
MOST_INSIDE = 5_000
"""Elements of a list among them."""
MOST_TRIED = 1_000

Flagged = tuple[weakref.ref[Any], int, stacks.Stack]
"""A tensor, autograd's sequence number when it was let require gradients, and where."""


class Entered:
    """``latest``: the sequence number of the node that took a value, the value's record, and where the node was made.

    ``record_of`` gives the record of a tensor without a graph, or None.
    """

    def __init__(self, record_of: Callable[[Any], Record | None]) -> None:
        self._record_of = record_of
        self._torch: Any = torch
        self.latest: deque[tuple[int, Record, stacks.Stack]] = deque(maxlen=MOST_ENTERED)
        self._flagged_at: OrderedDict[int, Flagged] = OrderedDict()

    def note(self, args: tuple[Any, ...], result: torch.Tensor) -> None:
        """An operation on ``args`` has given a result that requires gradients."""
        node = result.grad_fn
        kept = node_stacks.kept_in(node) if node is not None else None
        if node is None or not isinstance(kept, stacks.Stack):
            return
        for value in flat(args)[:MOST_TAKEN]:
            if isinstance(value, torch.Tensor) and not value.requires_grad:
                record = self._record_of(value)
                if record is not None:
                    self.latest.append((int(node._sequence_nr()), record, kept))

    def note_flag(self, tensor: Any, here: Callable[[], stacks.Stack]) -> None:
        """A tensor is let require gradients; only the first time counts, and only one that was made without."""
        if self._record_of(tensor) is None or self._flag_of(tensor) is not None:
            return
        self._flagged_at[id(tensor)] = weakref.ref(tensor), self._torch.autograd._get_sequence_nr(), here()
        if len(self._flagged_at) > MOST_ENTERED:
            self._flagged_at.popitem(last=False)

    def _flag_of(self, tensor: Any) -> Flagged | None:
        known = self._flagged_at.get(id(tensor))
        return known if known is not None and known[0]() is tensor else None

    def flagged_late(self, tensor: Any, graph: Container[int]) -> tuple[stacks.Stack, stacks.Stack] | None:
        """Where a tensor that had been made without the flag was first let require gradients, and where it, or what was
        computed from it, had gone into one of these nodes before; None where that was not seen."""
        known, record = self._flag_of(tensor), self._record_of(tensor)
        if known is None or record is None:
            return None
        _, number, flagged = known
        entered = ((r, at) for n, r, at in reversed(self.latest) if n in graph and n < number)
        taken = next((at for r, at in islice(entered, MOST_TRIED) if record in records_behind([r], MOST_TRIED)), None)
        return (flagged, taken) if taken is not None else None

    def taken_out(self, tensor: Any, graph: Container[int]) -> list[Record]:
        """The operations that took the values of this tensor out of the graph, where these then went into the nodes
        with these sequence numbers; the latest node first."""
        entered = [r for number, r, _ in reversed(self.latest) if number in graph]
        node = tensor.grad_fn
        kept = node_stacks.kept_in(node) if node is not None else None
        behind = (r for r in records_behind(entered) if r.origins)
        if node is not None:
            return [r for r in behind if kept is not None and any(o.raw is kept for o in r.origins)]
        return [r for r in behind if id(tensor) in r.behind]


def flat(values: Iterable[Any]) -> list[Any]:
    """The values, and those in the lists among them."""
    return [v for a in values for v in (elements(a, MOST_INSIDE) if isinstance(a, list | tuple) else (a,))]
