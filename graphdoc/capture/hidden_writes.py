"""In a second run: writes to trained parameters that no version counter tells of, with what stood there before.

``p.data`` shares the memory of ``p`` and has a version counter of its own (torch/csrc/autograd/variable.h), so what is
written through it is not noticed by the check that protects saved tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture import stacks
from graphdoc.capture.facts import parameters_of, storage_of
from graphdoc.capture.writes import WriteWatch

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

MOST_WRITES = 16
"""Writes to one parameter between two steps of its optimizer."""
MOST_VALUES = 64
"""Values of a parameter that are compared."""


class HiddenWrites(WriteWatch):  # type: ignore[no-untyped-call]
    """``WriteWatch`` that reads a parameter before it is written, until its optimizer steps again."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self._trained: dict[int, Any] = {}
        """By memory: a parameter that an optimizer steps, by reference."""
        self._before: dict[int, list[tuple[int, Any, int, str, stacks.Stack]]] = {}
        """By memory, for each write since the latest step: the sequence number, the values and the version that stood
        there, the operator and the stack."""
        self._told: tuple[str, stacks.Stack] | None = None
        if witness.audit is not None:
            witness.audit.stale.watch(self)

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped: what was written before is none of the next forward's."""
        for p in parameters_of(optimizer):
            memory = storage_of(p)
            if memory is not None and p.grad is not None:
                self._trained[memory] = p
                self._before.pop(memory, None)

    def _writing(self, func: Any, tensor: Any) -> None:
        memory = storage_of(tensor)
        parameter = self._trained.get(memory) if memory is not None else None
        if memory is None or parameter is None or tensor is parameter:
            return
        kept = self._before.setdefault(memory, [])
        if len(kept) < MOST_WRITES:
            values = parameter.detach().reshape(-1)[:MOST_VALUES].clone()
            sequence = self._torch.autograd._get_sequence_nr()
            here = stacks.stack_here(3)  # _writing < __torch_dispatch__ < who called the operation
            kept.append((sequence, values, parameter._version, str(func._schema.name), here))

    def changed_since(self, sequence: int) -> set[int]:
        """The memory of the parameters whose values were others when the node with this number was made, and whose
        version is the same: nothing else could have told."""
        found = set()
        for memory, kept in self._before.items():
            parameter = self._trained[memory]
            later = [w for w in kept if w[0] > sequence]
            if not later or parameter._version != later[0][2]:
                continue
            if not self._torch.equal(parameter.detach().reshape(-1)[:MOST_VALUES], later[0][1]):
                found.add(memory)
                self._told = later[-1][3].partition("::")[2] or later[-1][3], later[-1][4]
        return found

    def latest(self) -> tuple[str, stacks.Stack] | None:
        """Operator and stack of the last write that was asked about."""
        return self._told
