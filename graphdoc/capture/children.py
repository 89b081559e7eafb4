"""Processes made by multiprocessing: they end without Python's ordinary exit, and some are none of our business."""

from __future__ import annotations

import multiprocessing.process
import multiprocessing.util
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


def watch_children(witness: Witness) -> None:
    """Let the witness see the end of every process that is made from this one, and of this one if it was made so."""
    os.register_at_fork(after_in_child=witness.forked)
    multiprocessing.util.register_after_fork(witness, _started)
    # While a spawned process reads what it is to run, it is not yet known as a child; nothing tells it later.
    reading = getattr(multiprocessing.process.current_process(), "_inheriting", False)
    if reading or multiprocessing.process.parent_process() is not None:
        _started(witness)


def _started(witness: Witness) -> None:
    """Runs in the child, before its function does (or when it imports torch)."""
    if witness.over:
        return
    process = multiprocessing.process.current_process()
    target = getattr(process, "_target", None)
    if str(getattr(target, "__module__", "")).startswith("torch.utils.data"):
        witness.undo()  # a DataLoader worker: what fails there is told by the process that it works for
        return

    def ending() -> None:
        # Called in a ``finally`` of Process._bootstrap: an exception that ends the process is being handled just now.
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit) and isinstance(error.__context__, Exception):
            error = error.__context__  # torch.multiprocessing.spawn has sent it to the parent and exits
        witness.finish(error if isinstance(error, Exception) else None)

    multiprocessing.util.Finalize(None, ending, exitpriority=-10)
