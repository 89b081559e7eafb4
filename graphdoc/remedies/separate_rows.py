"""A tensor of its own for every slice of a buffer that several losses share."""

from __future__ import annotations

from graphdoc.finding import Remedy
from graphdoc.program.sliced_buffers import SlicedBuffer
from graphdoc.program.spans import place, where


def own_rows(buffer: SlicedBuffer) -> list[Remedy]:
    """Make a list of rows of the buffer."""
    return [
        Remedy(
            "rows_of_buffer",
            f"keep each row of {buffer.path} in a tensor of its own, for {where(buffer.read)}",
            "safe",
            "The numbers stay as they are. Each loss has the graph of its own row; the other rows' part of the graph "
            "got nothing but zeros from it.",
            {"read": place(buffer.read)},
        )
    ]
