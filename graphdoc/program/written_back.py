"""A write that is assigned to itself once more through ``[:]``, which PyTorch takes for one into a leaf."""

from __future__ import annotations

import ast

from graphdoc.program.observed import Program
from graphdoc.program.refused_writes import RefusedWrite
from graphdoc.source.module import Source
from graphdoc.source.places import Place
from graphdoc.source.rows import is_full


def is_written_back(program: Program, write: RefusedWrite) -> bool:
    """Whether the refused statement is ``x[…][:] += y`` and ``x`` was no leaf when it failed.

    Python adds to what ``x[…][:]`` gives, which works, and then assigns that to ``x[…][:]``: an alias that PyTorch
    makes for a full slice without noting it as a view (torch/csrc/autograd/python_variable_indexing.cpp)
    has no history by then, and requires gradients (tried with 2.13).
    """
    frame, path = write.frame, write.target.path
    held = [t for t in program.tensors if t.path == path and t.function == frame.function]
    if not write.visible or not held or any(t.is_leaf for t in held):
        return False
    source = Source(frame.file, program.sources.get(frame.file, ""))
    owner = source.node_statement(Place.of(frame))
    target = owner.target if isinstance(owner, ast.AugAssign) else None
    return isinstance(target, ast.Subscript) and is_full(target.slice)
