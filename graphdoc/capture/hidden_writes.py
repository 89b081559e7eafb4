"""In a second run: writes to trained parameters that no version counter tells of, with what stood there before.

``p.data`` shares the memory of ``p`` and has a version counter of its own (torch/csrc/autograd/variable.h), so what is
written through it is not noticed by the check that protects saved tensors.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from graphdoc.capture import stacks
from graphdoc.capture.facts import parameters_of, storage_of
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.writes import WriteWatch

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_WRITES = 16
"""Latest writes to one parameter whose values before them are kept."""
MOST_VALUES = 16_384
"""Values of a parameter that are compared: all of them, or some from all over it."""
ROUNDING = 4
"""What was put back by arithmetic may differ by as many roundings."""


class HiddenWrites(WriteWatch):  # type: ignore[no-untyped-call]
    """``WriteWatch`` that reads a parameter before it is written, until its optimizer steps again."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self._known: dict[int, Any] = {}
        """By memory: a parameter that an optimizer steps or a backward call reaches, by reference."""
        self._before: dict[int, deque[_Before]] = {}
        """By memory: the latest writes since the latest step of its optimizer."""
        self._lost: dict[int, int] = {}
        """By memory: the sequence number at a write before those that are kept."""
        self._told: tuple[str, stacks.Stack] | None = None
        if witness.audit is not None:
            witness.audit.stale.watch(self)

    def called(self, leaves: dict[int, Any]) -> None:
        """A backward call is about to run; ``leaves`` are those behind its roots."""
        for p in leaves.values():
            if isinstance(p, self._torch.nn.Parameter) and (memory := storage_of(p)) is not None:
                self._known.setdefault(memory, p)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped: what was written before is none of the next forward's."""
        for p in parameters_of(optimizer):
            memory = storage_of(p)
            if memory is not None and p.grad is not None:
                self._known[memory] = p
                self._before.pop(memory, None)
                self._lost.pop(memory, None)

    def _writing(self, func: Any, tensor: Any) -> None:
        memory = storage_of(tensor)
        parameter = self._known.get(memory) if memory is not None else None
        if memory is None or parameter is None or tensor is parameter:
            return
        kept = self._before.setdefault(memory, deque())
        if len(kept) == MOST_WRITES:
            self._lost[memory] = kept.popleft().sequence
        here = stacks.stack_here(3)  # _writing < __torch_dispatch__ < who called the operation
        sequence = self._torch.autograd._get_sequence_nr()
        kept.append(_Before(sequence, _values(parameter), parameter._version, str(func._schema.name), here))

    def changed_since(self, sequence: int) -> set[int]:
        """The memory of the parameters whose values were others when the node with this number was made, and whose
        version is the same: nothing else could have told."""
        found = set()
        for memory, kept in self._before.items():
            parameter = self._known[memory]
            later = [w for w in kept if w.sequence > sequence]
            if not later or self._lost.get(memory, 0) > sequence or parameter._version != later[0].version:
                continue
            if self._differ(_values(parameter), later[0].values):
                found.add(memory)
                self._told = later[-1].op.partition("::")[2] or later[-1].op, later[-1].stack
        return found

    def _differ(self, now: Any, before: Any) -> bool:
        if now is None or before is None:
            return False  # the memory has been given back
        if not now.is_floating_point():
            return not self._torch.equal(now, before)
        if not bool(self._torch.isfinite(now).all() & self._torch.isfinite(before).all()):
            return False  # nothing that can be measured
        small = ROUNDING * self._torch.finfo(now.dtype).eps * float(before.abs().max())
        return not bool(((now - before).abs() <= small).all())

    def latest(self) -> tuple[str, stacks.Stack] | None:
        """Operator and stack of the last write that was asked about."""
        return self._told


class _Before(NamedTuple):
    """One write: what stood there before it."""

    sequence: int
    values: Any
    version: int
    op: str
    stack: stacks.Stack


def _values(parameter: Any) -> Any:
    numbers = numbers_of(parameter)
    if numbers is None:
        return None
    flat = numbers.reshape(-1)
    return flat[:: max(1, flat.numel() // MOST_VALUES)].clone()
