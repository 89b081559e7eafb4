"""The layer inside a program that the system cannot set apart: its file calls go to a scratch folder.

Loaded by the start-up hook from its place, before the program, in every Python process of such a run. Standard library
only. What is written through Python or torch lands in the scratch folder and is read from there; what cannot be
redirected ends the whole run, and says why.
"""

from __future__ import annotations

import sys
from typing import Any

from .calls import cover_calls
from .refusals import Refusals
from .tree import Tree


def install(scratch: str, out: str) -> None:
    """Redirect this process's writes to ``scratch``; the run's own folder ``out`` stays as it is."""
    tree = Tree(scratch, out)
    sys.dont_write_bytecode = True  # the import system writes past every function that could be exchanged
    cover_calls(tree)
    Refusals(tree, out).watch()
    global _tree
    _tree = tree


_tree: Tree | None = None


def cover_torch(torch: Any) -> None:
    """``torch.save`` opens a path in C++: let it have the path in the scratch folder. Called once torch is there."""
    tree = _tree
    serialization = getattr(torch, "serialization", None)
    writer = getattr(serialization, "_open_zipfile_writer_file", None)
    if tree is None or writer is None:
        return
    init = writer.__init__

    def opened(self: Any, name: Any) -> None:
        init(self, tree.for_writing(name, replaced=True))

    writer.__init__ = opened
