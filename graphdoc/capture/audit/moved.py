"""Parameters that moved between a step and the next backward call though no version tells, known by their memory."""

from __future__ import annotations

import ctypes
from ctypes import string_at
from typing import TYPE_CHECKING, Any
from zlib import crc32

from graphdoc.capture.audit.watch import CLOSELY, LOOKS, Watch
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.tensors.facts import parameters_of, storage_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import has_memory

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.events.journal import Noted, Seen


# What stands in a parameter's memory, read as ``FiniteWatch`` reads a loss: that is no operation of the program's.

WHOLE = 64 * 1024
"""Bytes of a parameter that are read: all of them, or blocks from all over it."""
BLOCKS = 16
MOST_PARAMETERS = 256


class Fingerprint:
    """One parameter, as it stood when it was read last."""

    __slots__ = ("_memory", "_print", "_size", "_version", "ref")

    def __init__(self, parameter: Any) -> None:
        self.ref = Ref(parameter)
        self.again(parameter)

    def again(self, parameter: Any) -> None:
        """Read it anew."""
        self._memory, self._version = memory_of(parameter), parameter._version
        self._size = _size_of(parameter)
        self._print = _read(self._memory, self._size) if self._memory else 0

    def moved(self) -> Any:
        """The parameter, if it holds other numbers, in this memory or in another, and its version is the same."""
        parameter = self.ref()
        if parameter is None or parameter._version != self._version or _size_of(parameter) != self._size:
            return None
        memory = memory_of(parameter) if self._memory else 0
        return parameter if memory and _read(memory, self._size) != self._print else None


def fingerprints(parameters: list[Any]) -> list[Fingerprint]:
    """Those of the first so many that can be read."""
    readable = (p for p in parameters if is_readable(p))
    return [Fingerprint(p) for p, _ in zip(readable, range(MOST_PARAMETERS), strict=False)]


def is_readable(parameter: Any) -> bool:
    """Whether a parameter has memory of its own on the processor, which no other process writes to."""
    if not parameter.is_cpu or not has_memory(parameter) or not parameter.is_contiguous() or not parameter.numel():
        return False
    return not parameter.untyped_storage().is_shared()


def memory_of(parameter: Any) -> int:
    """Where a parameter that is readable begins; 0 for any other."""
    return int(parameter.data_ptr()) if is_readable(parameter) else 0


def print_of(parameter: Any) -> int:
    """One number for all that a parameter holds; 0 where it cannot be read."""
    memory = memory_of(parameter)
    return (_read(memory, _size_of(parameter)) or 1) if memory else 0


def _size_of(parameter: Any) -> int:
    return int(parameter.numel() * parameter.element_size())


def _read(memory: int, size: int) -> int:
    if size <= WHOLE:
        return crc32(string_at(memory, size))
    length, apart = WHOLE // BLOCKS, (size - WHOLE // BLOCKS) // (BLOCKS - 1)
    out = 0
    for block in range(BLOCKS):
        out = crc32(string_at(memory + block * apart, length), out)
    return out


# Parameters that moved between a step and the next backward call though no version tells: a write through ``.data``, or
# ``p.data = x``. What a forward has saved is the parameter itself, so backward reads the new memory.
# Around an optimizer's first steps, and a few later ones, all that its parameters hold is compared; around the others
# that the audit looks at one number of one of them, each in its turn, which costs a microsecond. Whether the write came
# behind the forward, a second run has to tell, which sees it happen.

ENOUGH = 2
"""Backward calls in which the same was seen."""
MOST_LOOKS = 6
"""Graphs that are walked through for it."""
MOST_CALLS = 30
"""Backward calls whose leaves without an optimizer are read."""
TURN = 8
"""Steps after which another parameter is sampled."""


class _Sample:
    """One number of one parameter, as the optimizer's latest step has left it."""

    __slots__ = ("_dtype", "_kind", "_memory", "_value", "ref", "version")

    def __init__(self, parameter: Any, kind: Any) -> None:
        self.ref, self._dtype, self._kind, self._memory = Ref(parameter), parameter.dtype, kind, 0
        self.again(parameter)

    def again(self, parameter: Any) -> None:
        """Read it anew."""
        self._value, self.version = self._read(parameter), parameter._version

    def _read(self, parameter: Any) -> float | None:
        """None where it has no memory any more that can be read."""
        memory = parameter.data_ptr()
        if memory != self._memory:
            memory = memory_of(parameter) if parameter.dtype == self._dtype else 0
        self._memory = memory
        offset = parameter.numel() // 2 * parameter.element_size()
        return float(self._kind.from_address(memory + offset).value) if memory else None

    def moved(self) -> Any:
        """The parameter, if the number is another one and the version is the same; else None."""
        parameter = self.ref()
        if parameter is None or parameter._version != self.version or self._value is None:
            return None
        return parameter if self._read(parameter) not in (None, self._value) else None


class _Held:
    """The parameters of one optimizer that get gradients, and what is read of them."""

    __slots__ = ("before", "prints", "refs", "sample", "turn")

    def __init__(self, parameters: list[Any]) -> None:
        self.refs = [Ref(p) for p in parameters]
        self.sample: _Sample | None = None
        self.turn = 0
        self.prints: list[Fingerprint] = []
        self.before: tuple[int, set[int | None]] | None = None
        """What had moved when the optimizer was cleared: the sequence number and the memory."""

    def again(self) -> None:
        for read in (*self.prints, self.sample):
            parameter = read.ref() if read is not None else None
            if parameter is not None and read is not None:
                read.again(parameter)

    def moved(self) -> list[Any]:
        """The parameters that have moved since the latest step, as far as they are read."""
        if self.prints:
            return [p for read in self.prints if (p := read.moved()) is not None]
        p = self.sample.moved() if self.sample is not None else None
        return [p] if p is not None else []


class Moved(Watch):
    """``suspect-write``: ``stack`` is a backward call before which the parameters have moved, perhaps behind the
    forward. Weak: the write may as well have come before it."""

    def __init__(self, audit: Audit) -> None:
        torch = audit.torch
        super().__init__(audit)
        self._kinds = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}
        self._held: dict[int, _Held | None] = {}
        """By optimizer; None where its own steps move no version."""
        self._others: dict[int, Fingerprint] = {}
        """Leaves of the graphs that no optimizer steps, by id."""
        self._calls = self._looks = self._seen = 0
        self.closely = False
        """All parameters of an optimizer are read until its next step."""

    # -- what is read --------------------------------------------------------------------------------------------

    def wants(self, seen: Seen) -> bool:
        held = self._held.get(seen.id)
        return held is not None and bool(held.prints)

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if self._looks >= MOST_LOOKS:
            self.closely = False
            return
        if seen.id not in self._held:
            self._held[seen.id] = _Held([p for p in parameters_of(optimizer) if p.grad is not None and self._plain(p)])
        held = self._held[seen.id]
        if held is None:
            return
        sample = held.sample
        parameter = sample.ref() if sample is not None else None
        had = sample is not None and parameter is not None and parameter.grad is not None
        if had and parameter._version == sample.version:  # type: ignore[union-attr]
            self._held[seen.id] = None  # a fused step: the version tells nothing of this optimizer
            return
        held.before = None
        if seen.steps <= CLOSELY or seen.steps in LOOKS:
            self.closely = True
            held.prints = fingerprints([p for ref in held.refs[:MOST_PARAMETERS] if (p := ref()) is not None])
        elif held.prints:
            held.prints = []
            self.closely = any(h is not None and h.prints for h in self._held.values())
        if sample is None or parameter is None or seen.steps % TURN == 0:
            self._sample(held)
        elif parameter is not None:
            sample.again(parameter)

    def _plain(self, parameter: Any) -> bool:
        return type(parameter) in (self._audit.torch.nn.Parameter, self._audit.torch.Tensor) and is_readable(parameter)

    def _sample(self, held: _Held) -> None:
        """Read another parameter from now on."""
        held.sample = None
        held.turn += 1
        for number in range(held.turn, held.turn + min(TURN, len(held.refs))):
            p = held.refs[number % len(held.refs)]()
            if p is not None and p.grad is not None and p.dtype in self._kinds and is_readable(p):
                held.sample = _Sample(p, self._kinds[p.dtype])
                return

    def zeroed(self, seen: Seen) -> None:
        """An optimizer is about to be cleared: a write that came before is older than a forward that comes now.

        So it is where another network is read: a clipped critic by the generator's loss.
        """
        self._cleared(seen.id)

    def emptied(self) -> None:
        """A module is about to be cleared."""
        self._cleared(None)

    def _cleared(self, optimizer: int | None) -> None:
        """What is read closely, and what is sampled of this optimizer, was written before now."""
        if self._looks >= MOST_LOOKS:
            return
        for ident, held in self._held.items():
            if held is not None and (held.prints or ident == optimizer):
                self._older(held)

    def _older(self, held: _Held) -> None:
        moved = held.moved()
        if moved:
            held.again()
            self._audit.followers.written(moved)
            held.before = self._audit.torch.autograd._get_sequence_nr(), self._memory(held, moved)

    @staticmethod
    def _memory(held: _Held, moved: list[Any]) -> set[int | None]:
        """Of one parameter that was sampled: the first layer's weight is not needed for a backward, and whoever moves
        one may have moved the others too."""
        every = moved if held.prints else [p for ref in held.refs if (p := ref()) is not None]
        return {storage_of(p) for p in every} - {None}

    # -- what is asked -------------------------------------------------------------------------------------------

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        if self._calls >= MOST_CALLS or self._looks >= MOST_LOOKS:
            return
        self._calls += 1
        held = self._audit.journal.held()
        kind = self._audit.torch.nn.Parameter
        mine = {i: p for i, p in leaves.items() if i not in held and type(p) is kind and is_readable(p)}
        known = [(i, self._others[i]) for i in mine if i in self._others]
        moved = [p for i, read in known if (p := read.moved()) is not None and p is mine[i]]
        new = [p for i, p in mine.items() if i in self._others or len(self._others) < MOST_PARAMETERS]
        self._others.update((id(p), Fingerprint(p)) for p in new[:MOST_PARAMETERS])
        if moved:
            self._look(noted, outputs, {storage_of(p) for p in moved}, 1 << 62)

    def began(self, noted: Noted, outputs: Any) -> None:
        """A backward call is about to run, whether it is looked at or not; none while the audit is asleep."""
        if self._looks >= MOST_LOOKS:
            return
        for held in self._held.values():
            if held is None:
                continue
            moved = held.moved()
            if moved:
                held.again()
                self._audit.followers.written(moved)
                self._look(noted, outputs, self._memory(held, moved), 1 << 62)
            elif held.before is not None:
                sequence, memory = held.before
                self._look(noted, outputs, memory, sequence)
            held.before = None

    def _look(self, noted: Noted, outputs: Any, memory: set[int | None], since: int) -> None:
        """Whether the graph holds this memory as a forward before that moment has saved it."""
        self._looks += 1
        with self._unseen():
            order = walk.walk(tensor_roots(outputs), walk.DEEP - 1)
            if not any(f.sequence < since and walk.saved_in(f.node, memory) for f in order):
                return
        self._seen += 1
        if self._seen == ENOUGH:
            self._found = [self._sign_at("suspect-write", noted, count=ENOUGH, weak=True)]
