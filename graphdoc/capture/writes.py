"""Who wrote: in a second run, every in-place write by storage, version and place.

Nothing in PyTorch remembers the writer. A ``TorchDispatchMode`` sees every operator, also those that run inside
libraries and under ``no_grad``, and its schema says which arguments are written; too dear for every run.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.capture import stacks
from graphdoc.capture.frames import frames_of
from graphdoc.capture.in_threads import watch_each_thread
from graphdoc.evidence import Write

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_STORAGES = 200_000
MOST_WRITES = 64
"""Writes kept for one storage, the latest."""


class WriteWatch(TorchDispatchMode):
    """Notes (version after, operator, stack, grad mode) for each write, by the identity of the storage."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._witness = witness
        self._torch = witness.torch
        self._written: OrderedDict[int, tuple[Any, deque[tuple[int, str, stacks.Stack, bool]]]] = OrderedDict()
        self._positions: dict[Any, tuple[tuple[int, str], ...]] = {}

    @classmethod
    def start(cls, witness: Witness) -> WriteWatch:
        return watch_each_thread(cls(witness), witness)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        positions = self._positions.get(func)
        if positions is None:
            positions = self._positions[func] = tuple(
                (i, a.name)
                for i, a in enumerate(func._schema.arguments)
                if a.alias_info is not None and a.alias_info.is_write
            )
        left: list[Any] = []
        if positions:
            try:
                for tensor in self._written_by(positions, args, kwargs):
                    self._writing(func, tensor)
                    left.append(tensor.untyped_storage())
            except Exception:
                pass
        result = func(*args, **kwargs)
        if positions:
            try:
                self._note(func, positions, args, kwargs, left)
            except Exception:
                pass
        return result

    def _note(self, func: Any, positions: tuple[tuple[int, str], ...], args: Any, kwargs: Any, left: list[Any]) -> None:
        """``left`` are the storages before the call: ``set_`` gives a tensor another one, and what a node has saved of
        it shares the version counter and stays with the old one."""
        raw: stacks.Stack | None = None
        for i, tensor in enumerate(self._written_by(positions, args, kwargs)):
            if raw is None:
                raw = stacks.stack_here(3)  # _note < __torch_dispatch__ < torch's wrapper of it, from 2.12 on
            # The version counter is bumped above this level, after the kernel has run.
            write = tensor._version + 1, str(func._schema.name), raw, self._torch.is_grad_enabled()
            storage = tensor.untyped_storage()
            self._of(storage).append(write)
            if i < len(left) and left[i]._cdata != storage._cdata:
                self._of(left[i]).append(write)

    def _of(self, storage: Any) -> deque[tuple[int, str, stacks.Stack, bool]]:
        """The writes to a storage."""
        key = storage._cdata
        known = self._written.get(key)
        # Addresses are used again: only the reference tells whether it is still the same storage.
        if known is None or known[0]() is not storage:
            known = self._written[key] = (weakref.ref(storage), deque(maxlen=MOST_WRITES))
            if len(self._written) > MOST_STORAGES:
                self._written.popitem(last=False)
        return known[1]

    def _written_by(self, positions: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        """The tensors that this call writes."""
        for i, name in positions:
            value = args[i] if i < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if isinstance(tensor, self._torch.Tensor):
                    yield tensor

    def _writing(self, func: Any, tensor: Any) -> None:
        """This tensor is about to be written."""

    def writes_to(self, storage: int | None, expected: int, current: int, cwd: str) -> list[Write]:
        """The writes that moved this storage's version from ``expected`` to ``current``."""
        out: list[Write] = []
        known = self._written.get(storage or 0)
        for version, op, raw, grad_mode in known[1] if known is not None and known[0]() is not None else ():
            if expected < version <= current:
                frames = frames_of(raw, cwd)
                name = op.partition("::")[2] or op
                if out and [vars(f) for f in out[-1].stack] == [vars(f) for f in frames]:
                    out[-1].count += 1
                    out[-1].version = version
                else:
                    out.append(Write(name, frames, version, grad_mode=grad_mode))
        return out

    def fill(self, evidence: Any, autopsy: Any, roots: list[Any], outputs: list[Any]) -> None:
        """Nothing to add at the end: the autopsy asks ``writes_to`` for each stale tensor."""
