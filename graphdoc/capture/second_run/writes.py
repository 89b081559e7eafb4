"""Who wrote, in a second run: every in-place write, and writes to parameters that no version counter tells of.

Nothing in PyTorch remembers the writer. A ``TorchDispatchMode`` sees every operator, also those that run inside
libraries and under ``no_grad``, and its schema says which arguments are written; too dear for every run.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import frames_of
from graphdoc.capture.process.in_threads import watch_each_thread
from graphdoc.capture.second_run.births import tensors_in, writes_over, written_by
from graphdoc.capture.tensors.facts import parameters_of, storage_of
from graphdoc.capture.tensors.number_facts import numbers_of, some_of
from graphdoc.evidence import ASSIGNED, Write

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

    @classmethod
    def start(cls, witness: Witness, _: str) -> WriteWatch:
        return watch_each_thread(cls(witness), witness)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not writes_over(func):
            return func(*args, **kwargs)
        written = list(tensors_in(written_by(func, args, kwargs)))
        left: list[Any] = []
        try:
            for tensor in written:
                self._writing(func, tensor)
                left.append(tensor.untyped_storage())
        except Exception:
            pass
        result = func(*args, **kwargs)
        try:
            self._note(func, written, left)
        except Exception:
            pass
        return result

    def _note(self, func: Any, written: list[Any], left: list[Any]) -> None:
        """``left`` are the storages before the call: ``set_`` gives a tensor another one, and what a node has saved of
        it shares the version counter and stays with the old one."""
        raw = stacks.stack_here(3)  # _note < __torch_dispatch__ < torch's wrapper of it, from 2.12 on
        for i, tensor in enumerate(written):
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


# In a second run: writes to trained parameters that no version counter tells of, with what stood there before.
# ``p.data`` shares the memory of ``p`` and has a version counter of its own (torch/csrc/autograd/variable.h), so what
# is written through it is not noticed by the check that protects saved tensors. Nor is ``p.data = x``: a node saves a
# leaf as itself, and finds it with another memory. That is no operator: a ``TorchFunctionMode`` sees it.

MOST_HIDDEN = 16
"""Latest writes to one parameter whose values before them are kept."""
MOST_VALUES = 16_384
"""Values of a parameter that are compared: all of them, or some from all over it."""
ROUNDING = 4
"""What was put back by arithmetic may differ by as many roundings."""


class HiddenWrites(WriteWatch):  # type: ignore[no-untyped-call]
    """``WriteWatch`` that reads a parameter before it is written, until its optimizer steps again."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self._known: dict[int, dict[int, Any]] = {}
        """By memory: the parameters that an optimizer steps or a backward call reaches, by id and by reference."""
        self._before: dict[int, deque[_Before]] = {}
        """By parameter (id): the latest writes since the latest step of its optimizer."""
        self._lost: dict[int, int] = {}
        """By parameter: the sequence number at a write before those that are kept."""
        self._told: tuple[str, stacks.Stack] | None = None
        if witness.audit is not None:
            witness.audit.stale.watch(self)
        watch_each_thread(Assignments(self._assigning, self._know), witness)

    def called(self, leaves: dict[int, Any]) -> None:
        """A backward call is about to run; ``leaves`` are those behind its roots."""
        for p in leaves.values():
            if isinstance(p, self._torch.nn.Parameter):
                self._know(p)

    def _know(self, parameter: Any) -> None:
        """This is a parameter, with the memory that it has now."""
        memory = storage_of(parameter)
        if memory is not None:
            self._known.setdefault(memory, {})[id(parameter)] = parameter

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped: what was written before is none of the next forward's."""
        for p in parameters_of(optimizer):
            if p.grad is not None:
                self._know(p)
                self._before.pop(id(p), None)
                self._lost.pop(id(p), None)

    def _writing(self, func: Any, tensor: Any) -> None:
        memory = storage_of(tensor)
        every = self._known.get(memory, {}) if memory is not None else {}
        for p in every.values() if id(tensor) not in every else ():
            if storage_of(p) == memory:
                # _writing < __torch_dispatch__ < who called the operation
                self._keep(p, func._schema.name.partition("::")[2], stacks.stack_here(3))

    def _assigning(self, tensor: Any) -> bool:
        """``tensor.data = x`` is about to run; returns whether it is a parameter that is known."""
        memory = storage_of(tensor)
        known = memory is not None and id(tensor) in self._known.get(memory, {})
        if known:
            self._keep(tensor, ASSIGNED, stacks.stack_here(3))  # _assigning < __torch_function__ < who assigns
        return known

    def _keep(self, parameter: Any, op: str, here: stacks.Stack) -> None:
        kept = self._before.setdefault(id(parameter), deque())
        if len(kept) == MOST_HIDDEN:
            self._lost[id(parameter)] = kept.popleft().sequence
        sequence = self._torch.autograd._get_sequence_nr()
        kept.append(_Before(parameter, sequence, _values(parameter), parameter._version, op, here))

    def changed_since(self, sequence: int) -> set[int]:
        """The memory of the parameters whose values were others when the node with this number was made, and whose
        version is the same: nothing else could have told."""
        found = set()
        for ident, kept in self._before.items():
            parameter = kept[0].parameter
            later = [w for w in kept if w.sequence > sequence]
            if not later or self._lost.get(ident, 0) > sequence or parameter._version != later[0].version:
                continue
            memory = storage_of(parameter)
            if memory is not None and self._differ(_values(parameter), later[0].values):
                found.add(memory)
                self._told = later[-1].op, later[-1].stack
        return found

    def _differ(self, now: Any, before: Any) -> bool:
        if now is None or before is None or now.shape != before.shape or now.dtype != before.dtype:
            return False  # the memory has been given back; an assignment of another shape
        if not now.is_floating_point():
            return not self._torch.equal(now, before)
        if not bool(self._torch.isfinite(now).all() & self._torch.isfinite(before).all()):
            return False  # nothing that can be measured
        small = ROUNDING * self._torch.finfo(now.dtype).eps * float(before.abs().max())
        return not bool(((now - before).abs() <= small).all())

    def latest(self) -> tuple[str, stacks.Stack] | None:
        """Operator and stack of the last write that was asked about."""
        return self._told


_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]


class _Before(NamedTuple):
    """One write: what stood there before it."""

    parameter: Any
    sequence: int
    values: Any
    version: int
    op: str
    stack: stacks.Stack


class Assignments(TorchFunctionMode):
    """Hands on each ``p.data = x``, before and after; ``p.data -= x`` assigns the memory that it has, once written."""

    def __init__(self, before: Callable[[Any], bool], after: Callable[[Any], Any]) -> None:
        super().__init__()
        self._before, self._after = before, after

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = func == _SET_DATA and storage_of(args[0]) != storage_of(args[1]) and self._before(args[0])
        result = func(*args, **(kwargs or {}))
        if known:
            self._after(args[0])
        return result


def _values(parameter: Any) -> Any:
    numbers = numbers_of(parameter)
    return some_of(numbers, MOST_VALUES).clone() if numbers is not None else None
