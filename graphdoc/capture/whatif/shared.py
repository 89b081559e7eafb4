"""Numbers that a fork leaves for the program: memory that both have, laid out by the parameters that it is for."""

from __future__ import annotations

import mmap
from typing import Any

MOST = 20_000_000
"""Numbers that one such memory may hold."""


class Shared:
    """Rows of float32, one after the other; ``width`` numbers each."""

    def __init__(self, torch: Any, tensors: list[Any], rows: int) -> None:
        self._torch = torch
        self.sizes = [int(t.numel()) for t in tensors]
        self.width = sum(self.sizes)
        self.rows = rows if self.width else 0
        self._memory = mmap.mmap(-1, max(4 * self.width * self.rows, 4))
        self._flat = torch.frombuffer(self._memory, dtype=torch.float32)

    @staticmethod
    def fits(tensors: list[Any], rows: int) -> bool:
        """Whether so many rows for these may be had."""
        return sum(int(t.numel()) for t in tensors) * rows <= MOST

    def write(self, row: int, values: list[Any]) -> None:
        """Write one row: a tensor, or None for zeros, for each of those that it was made for."""
        place = row * self.width
        for size, value in zip(self.sizes, values, strict=True):
            if value is None:
                self._flat[place : place + size].zero_()
            else:
                self._flat[place : place + size].copy_(value.reshape(-1))
            place += size

    def read(self, row: int) -> list[Any]:
        """One row, as flat tensors that look into the memory."""
        place = row * self.width
        out = []
        for size in self.sizes:
            out.append(self._flat[place : place + size])
            place += size
        return out
