"""What stands in a parameter's memory, read as ``FiniteWatch`` reads a loss: that is no operation of the program's."""

from __future__ import annotations

import weakref
from ctypes import string_at
from typing import Any
from zlib import crc32

from graphdoc.capture.number_facts import has_memory

WHOLE = 64 * 1024
"""Bytes of a parameter that are read: all of them, or blocks from all over it."""
BLOCKS = 16
MOST_PARAMETERS = 256


class Fingerprint:
    """One parameter, as it stood when it was read last."""

    __slots__ = ("_memory", "_print", "_size", "_version", "ref")

    def __init__(self, parameter: Any) -> None:
        self.ref = weakref.ref(parameter)
        self.again(parameter)

    def again(self, parameter: Any) -> None:
        """Read it anew."""
        self._memory, self._version = memory_of(parameter), parameter._version
        self._size = _size_of(parameter)
        self._print = _read(self._memory, self._size) if self._memory else 0

    def moved(self) -> Any:
        """The parameter, if other numbers stand in the same memory and the version is the same; else None."""
        parameter = self.ref()
        if parameter is None or not self._memory or memory_of(parameter) != self._memory:
            return None  # memory that has been given up is never read
        if _size_of(parameter) != self._size:
            return None
        if parameter._version != self._version or _read(self._memory, self._size) == self._print:
            return None
        return parameter


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
