"""Computing out of place what a function writes into a tensor that it was given, with a graph."""

from __future__ import annotations

from graphdoc.finding import Remedy
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.program.written_argument import written_into_given
from graphdoc.remedies.in_place_write import together


def result_of_its_own(program: Program, reuse: Reuse) -> list[Remedy]:
    """A tensor of its own for what is given back: the caller's keeps its numbers, and gets no graph."""
    frames = written_into_given(program, reuse)
    edits = [{"kind": "out_of_place", "args": {"place": place(f), "caller": True}} for f in frames]
    lines = ", ".join(where(f) for f in frames[:3])
    note = "What the function was given keeps its numbers, which the write changed, and has no graph."
    return together(edits, f"write out of place, at {lines}", "unsafe", note)
