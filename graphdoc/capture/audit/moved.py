"""Parameters that moved between a step and the next backward call though no version tells, known by their memory."""

from __future__ import annotations

from ctypes import string_at
from typing import Any
from zlib import crc32

from graphdoc.capture.audit.watch import CLOSELY, LOOKS, OFTEN, EngineCall, Watch
from graphdoc.capture.events.journal import Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.tensors.facts import parameters_of, storage_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.number_facts import has_memory, numbers_of

# What stands in a parameter's memory, read as ``FiniteWatch`` reads a loss: that is no operation of the program's.

WHOLE = 64 * 1024
"""Bytes of a parameter that are read: all of them, or blocks from all over it."""
BLOCKS = 16
MOST_PARAMETERS = 256
FIRST_VALUES = 8


class Fingerprint:
    """One parameter, or ``one`` number of it, as it stood when it was read last."""

    __slots__ = ("_memory", "_one", "_print", "_size", "ref", "version")

    def __init__(self, parameter: Any, one: bool = False) -> None:
        self.ref = Ref(parameter)
        self._one = parameter.element_size() if one else 0
        self.again(parameter)

    def again(self, parameter: Any) -> None:
        """Read it anew."""
        self._memory, self._size, self.version = memory_of(parameter), _size_of(parameter), parameter._version
        self._print = self._read() if self._memory else 0

    def _read(self) -> int | bytes:
        if self._one:
            return string_at(self._memory + self._size // self._one // 2 * self._one, self._one)
        return _read(self._memory, self._size)

    def changed(self) -> Any:
        """The parameter, if it holds other numbers, in this memory or in another."""
        p = self.ref()
        if p is None or not self._memory or _size_of(p) != self._size:
            return None
        if p.data_ptr() != self._memory:
            self._memory = memory_of(p)
        return p if self._memory and self._read() != self._print else None

    def moved(self) -> Any:
        """The same, if its version is what it was."""
        p = self.ref()
        return self.changed() if p is not None and p._version == self.version else None


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


def values_of(parameter: Any) -> Any:
    """The same, to be compared; where its memory is not read its first numbers, which whoever updates it by hand moves.
    0 where it has none that can be read."""
    numbers = None if (whole := print_of(parameter)) else numbers_of(parameter)
    return whole if numbers is None else numbers.reshape(-1)[:FIRST_VALUES].tolist()


def is_read_whole(parameter: Any) -> bool:
    """Whether ``values_of`` compares all of its numbers."""
    return parameter.numel() <= FIRST_VALUES or (bool(memory_of(parameter)) and _size_of(parameter) <= WHOLE)


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

MOST_LOOKS = 6
"""Graphs that are walked through for it."""
MOST_CALLS = 30
"""Backward calls whose leaves without an optimizer are read."""
TURN = 8
"""Steps after which another parameter is sampled."""
LATEST = 1 << 62
"""Above all sequence numbers."""


class _Held:
    """The parameters of one optimizer that get gradients, and what is read of them: all, or a number of one."""

    def __init__(self, parameters: list[Any]) -> None:
        self.refs = [Ref(p) for p in parameters]
        self.sample: Fingerprint | None = None
        self.turn = 0
        self.prints: list[Fingerprint] = []
        self.before: tuple[int, set[int | None]] | None = None
        """What had moved when the optimizer was cleared: the sequence number and the memory."""

    def alive(self) -> list[Any]:
        return [p for ref in self.refs if (p := ref()) is not None]

    def moved(self) -> tuple[list[Any], set[int | None]]:
        """The parameters that have moved since the latest step, as far as they are read, and the memory of these. All
        are read anew then. Of one that was sampled it is the memory of all: the first layer's weight is not needed for
        a backward, and whoever moves one may have moved the others too."""
        sample = [self.sample] if self.sample is not None else []
        found = [p for read in self.prints or sample if (p := read.moved()) is not None]
        if not found:
            return [], set()
        for read in (*self.prints, *sample):
            if (p := read.ref()) is not None:
                read.again(p)
        return found, {storage_of(p) for p in (found if self.prints else self.alive())} - {None}


class Moved(Watch):
    """``suspect-write``: ``stack`` is a backward call before which the parameters have moved, perhaps behind the
    forward; ``other`` is the latest step. Weak: the write may as well have come before it."""

    def set_up(self) -> None:
        self._held: dict[int, _Held | None] = {}
        """By optimizer; None where its own steps move no version."""
        self._others: dict[int, Fingerprint] = {}
        """Leaves of the graphs that no optimizer steps, by id."""
        self._calls = self._seen = 0
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
            held.prints = [Fingerprint(p) for p in held.alive() if is_readable(p)][:MOST_PARAMETERS]
        elif held.prints:
            held.prints = []
            self.closely = any(h is not None and h.prints for h in self._held.values())
        if sample is None or parameter is None or seen.steps % TURN == 0:
            self._sample(held)
        else:
            sample.again(parameter)

    def _plain(self, parameter: Any) -> bool:
        return type(parameter) in (self._audit.torch.nn.Parameter, self._audit.torch.Tensor) and is_readable(parameter)

    @staticmethod
    def _sample(held: _Held) -> None:
        """Read another parameter from now on."""
        held.turn += 1
        turns = range(held.turn, held.turn + min(TURN, len(held.refs)))
        some = (held.refs[number % len(held.refs)]() for number in turns)
        found = (p for p in some if p is not None and p.grad is not None and is_readable(p))
        held.sample = next((Fingerprint(p, True) for p in found), None)

    def cleared(self, optimizer: int = -1) -> None:
        """An optimizer is about to be cleared, or a module: what is read closely, and what is sampled of this one, was
        written before now, and is older than a forward that comes now.

        So it is where another network is read: a clipped critic by the generator's loss.
        """
        for ident, held in self._held.items() if self._looks < MOST_LOOKS else ():
            if held is not None and (held.prints or ident == optimizer):
                moved, memory = held.moved()
                if moved:
                    self._audit.followers.written(moved)
                    held.before = self._audit.torch.autograd._get_sequence_nr(), memory

    # -- what is asked -------------------------------------------------------------------------------------------

    def called(self, call: EngineCall) -> None:
        if self._calls >= MOST_CALLS or self._looks >= MOST_LOOKS:
            return
        self._calls += 1
        held = self._journal.held()
        kind = self._audit.torch.nn.Parameter
        mine = {i: p for i, p in call.leaves.items() if i not in held and type(p) is kind and is_readable(p)}
        known = [(i, self._others[i]) for i in mine if i in self._others]
        moved = [p for i, read in known if (p := read.moved()) is not None and p is mine[i]]
        new = [p for i, p in mine.items() if i in self._others or len(self._others) < MOST_PARAMETERS]
        self._others.update((id(p), Fingerprint(p)) for p in new[:MOST_PARAMETERS])
        if moved:
            self._look(call, {storage_of(p) for p in moved}, LATEST)

    def began(self, call: EngineCall) -> None:
        for held in self._held.values() if self._looks < MOST_LOOKS else ():
            if held is None:
                continue
            moved, memory = held.moved()
            before, held.before = held.before, None
            if moved:
                self._audit.followers.written(moved)
                self._look(call, memory, LATEST)
            elif before is not None:
                self._look(call, before[1], before[0])

    def _look(self, call: EngineCall, memory: set[int | None], since: int) -> None:
        """Whether the graph holds this memory as a forward before that moment has saved it."""
        self._looks += 1
        if not any(f.sequence < since and walk.saved_in(f.node, memory) for f in call.order):
            return
        self._seen += 1
        if self._seen == OFTEN:
            step = self._journal.latest("step")
            self._found = [self._sign_at("suspect-write", call.noted, step, count=OFTEN, weak=True)]
