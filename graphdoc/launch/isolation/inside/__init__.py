"""What keeps a program apart from inside, where the system cannot: its file calls go to a scratch folder, and it has no
other processes.

Loaded by the start-up hook from its place, before the program, in every Python process of such a run. Standard library
only. What is written through Python or torch lands in the scratch folder and is read from there; what cannot be
redirected ends the whole run, and says why.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from .file_calls import cover_calls
from .processes import Processes
from .refusals import Refusals
from .tree import Tree


def install(keeper: int, scratch: str | None, out: str) -> None:
    """Keep this process from all that do not descend from ``keeper``, and its writes in ``scratch``, if there is one;
    the run's own folder ``out`` stays as it is."""
    Processes(keeper).watch()
    if scratch is None:
        return
    tree = Tree(scratch, out)
    sys.dont_write_bytecode = True  # the import system writes past every function that could be exchanged
    cover_calls(tree)
    Refusals(tree, out).watch()
    global _tree
    _tree = tree


_tree: Tree | None = None


_WRITERS = (
    ("serialization._open_zipfile_writer_file", "__init__", 1),  # torch.save
    ("jit.RecursiveScriptModule", "save", 1),
    ("_C.ScriptModule", "save", 1),
    ("_C._autograd._ProfilerResult", "save", 1),  # a profiler's export_chrome_trace
    ("_C._distributed_c10d.FileStore", "__init__", 1),  # init_method="file://..."
    ("", "from_file", 0),  # a tensor that is a file in memory
    ("UntypedStorage", "from_file", 0),
)
"""What of torch opens a path in C++, and which argument the path is."""


def cover_torch(torch: Any) -> None:
    """Let what opens a path in C++ have the path in the scratch folder. Called once torch is there."""
    for place, name, number in _WRITERS if _tree is not None else ():
        owner = torch
        for part in place.split(".") if place else ():
            owner = getattr(owner, part, None)
        if getattr(owner, name, None) is not None:
            setattr(owner, name, _redirected(_tree, getattr(owner, name), number))


def _redirected(tree: Any, original: Any, number: int) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > number and isinstance(given[number], (str, os.PathLike)):
            given[number] = tree.for_writing(given[number])
        for name in ("filename", "file_name", "f"):
            if isinstance(kwargs.get(name), (str, os.PathLike)):
                kwargs[name] = tree.for_writing(kwargs[name])
        return original(*given, **kwargs)

    return call
