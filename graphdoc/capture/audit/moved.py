"""Parameters that moved between a step and the next backward call though no version tells: a write through ``.data``.

One number of one parameter of each optimizer is read from memory, as ``FiniteWatch`` reads a loss: that is no operation
and costs a microsecond. Whether the write came behind the forward, a second run has to tell, which sees it happen.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks, walk
from graphdoc.capture.facts import grad_fn_of, parameters_of, storage_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen

ENOUGH = 2
"""Backward calls in which the same was seen."""
MOST_LOOKS = 6
"""Graphs that are walked through for it."""


class _Sample:
    """One number of one parameter, as the optimizer's latest step has left it."""

    __slots__ = ("kind", "memory", "offset", "ref", "since", "value", "version")

    def __init__(self, parameter: Any, kind: Any) -> None:
        self.ref = weakref.ref(parameter)
        self.kind = kind
        self.offset = parameter.numel() // 2 * parameter.element_size()
        self.again(parameter)

    def again(self, parameter: Any) -> None:
        """Read it anew."""
        self.memory = parameter.data_ptr()
        self.value, self.version = self._read(), parameter._version
        self.since = -1

    def _read(self) -> float:
        return float(self.kind.from_address(self.memory + self.offset).value)

    def moved(self) -> Any:
        """The parameter, if the number is another one in the same memory, and the version is the same; else None."""
        parameter = self.ref()
        if parameter is None or parameter.data_ptr() != self.memory or self._read() == self.value:
            return None  # memory that has been given up is never read
        return parameter if parameter._version == self.version else None


class Moved:
    """``suspect-write``: ``stack`` is a backward call before which the parameters have moved, perhaps behind the
    forward. Weak: the write may as well have come before it."""

    def __init__(self, audit: Audit) -> None:
        torch = audit.torch
        self._audit = audit
        self._modes = getattr(torch._C, "_len_torch_function_stack", lambda: 0)
        self._kinds = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}
        self._samples: dict[int, _Sample | None] = {}
        self._looks = self._seen = 0
        self._found: list[Sign] = []

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        if self._looks >= MOST_LOOKS or self._modes():
            return
        sample = self._samples.get(seen.id)
        parameter = sample.ref() if sample is not None else None
        if parameter is not None and sample is not None:
            if parameter._version == sample.version:
                self._samples[seen.id] = None  # a fused step: the version tells nothing of this optimizer
            else:
                sample.again(parameter)
        elif seen.id not in self._samples:
            kind = self._audit.torch.nn.Parameter
            plain = (
                p
                for p in parameters_of(optimizer)
                if type(p) is kind and p.grad is not None and p.is_cpu and p.dtype in self._kinds and p.is_contiguous()
            )
            first = next(plain, None)
            self._samples[seen.id] = _Sample(first, self._kinds[first.dtype]) if first is not None else None

    def zeroed(self, seen: Seen) -> None:
        """An optimizer is about to be cleared: a write that came before is older than a forward that comes now."""
        sample = self._samples.get(seen.id)
        if sample is not None and self._looks < MOST_LOOKS and not self._modes():
            parameter = sample.moved()
            if parameter is not None:
                sample.again(parameter)
                sample.since = self._audit.torch.autograd._get_sequence_nr()

    def began(self, noted: Noted, outputs: Any) -> None:
        """A backward call is about to run, whether it is looked at or not."""
        if self._looks >= MOST_LOOKS or self._modes():
            return
        for ident, sample in self._samples.items():
            if sample is None:
                continue
            parameter, since = sample.moved(), sample.since
            if parameter is None and since < 0:
                continue
            sample.since = -1
            if parameter is not None:
                sample.again(parameter)
                since = 1 << 62
            self._look(noted, outputs, ident, since)

    def _look(self, noted: Noted, outputs: Any, optimizer: int, since: int) -> None:
        """Whether the graph holds memory of this optimizer's parameters that a forward before that moment has saved.

        Of any: the first layer's weight is not needed for a backward, and whoever moves one moves the others too.
        """
        self._looks += 1
        live = [s.ref() for s in self._audit.journal.optimizers.values() if s.id == optimizer]
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            memory = {storage_of(p) for o in live if o is not None for p in parameters_of(o)} - {None}
            order = walk.walk([grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")], walk.DEEP - 1)
            if not any(f.sequence < since and walk.saved_in(f.node, memory) for f in order):
                return
        self._seen += 1
        if self._seen == ENOUGH:
            stack = frames_of(stacks.stack_of_seen(noted[3]), self._audit.witness.cwd)
            self._found = [Sign("suspect-write", stack, event=noted[0], count=ENOUGH, weak=True)]

    def signs(self) -> list[Sign]:
        return self._found
