"""Processes made by multiprocessing: they end without Python's ordinary exit, and some are none of our business."""

from __future__ import annotations

import multiprocessing.process
import multiprocessing.util
import os
import sys
import weakref
from types import CodeType
from typing import TYPE_CHECKING, Any

from graphdoc.capture.marks import leave

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


_latest: list[weakref.ref[Witness]] = []
"""The witness that observes this process now. Python forgets nothing that ``os.register_at_fork`` was given, so it is
given one function, once."""


def watch_children(witness: Witness) -> None:
    """Let the witness see the end of every process that is made from this one, and of this one if it was made so."""
    if not _latest:
        os.register_at_fork(after_in_child=_forked)
    _latest[:] = [weakref.ref(witness)]
    multiprocessing.util.register_after_fork(witness, _started)
    # While a spawned process reads what it is to run, it is not yet known as a child; nothing tells it later.
    reading = getattr(multiprocessing.process.current_process(), "_inheriting", False)
    if reading or multiprocessing.process.parent_process() is not None:
        _started(witness)


def _forked() -> None:
    witness = _latest[0]()
    if witness is not None and not witness.over:
        witness.forked()


def _started(witness: Witness) -> None:
    """Runs in the child, before its function does (or when it imports torch)."""
    if witness.over:
        return
    process = multiprocessing.process.current_process()
    target = getattr(process, "_target", None)
    if str(getattr(target, "__module__", "")).startswith("torch.utils.data"):
        witness.undo()  # a DataLoader worker: what fails there is told by the process that it works for
        leave(witness.out, "ended")
        return

    def ending() -> None:
        # Called in a ``finally`` of Process._bootstrap: an exception that ends the process is being handled just now.
        if not witness.over:
            _finish(witness, sys.exc_info()[1])

    multiprocessing.util.Finalize(None, ending, exitpriority=-10)
    if sys.version_info >= (3, 13):
        _watch_run(witness, process)


def _finish(witness: Witness, error: BaseException | None) -> None:
    if isinstance(error, SystemExit) and isinstance(error.__context__, Exception):
        error = error.__context__  # torch.multiprocessing.spawn has sent it to the parent and exits
    witness.finish(error if isinstance(error, Exception) else None)


if sys.version_info >= (3, 13):

    def _watch_run(witness: Witness, process: Any) -> None:
        """See the exception that leaves ``Process.run``.

        From Python 3.13 finalizers run after Process._bootstrap has dealt with it (gh-83856: atexit calls them), and
        nothing keeps it. ``sys.monitoring`` tells of every frame that an exception leaves: it adds no frame to a
        traceback, costs nothing until something is raised, and sees also a ``run`` that is already on its way.
        """
        monitoring = sys.monitoring
        run = getattr(type(process).run, "__code__", None)
        free = [tool for tool in (4, 3) if monitoring.get_tool(tool) is None]  # those that have no fixed meaning
        if run is None or not free:
            return

        def left(code: CodeType, _offset: int, error: BaseException) -> None:
            if code is run and not witness.over:
                stop()
                _finish(witness, error)

        def stop() -> None:
            if monitoring.get_tool(free[0]) == "graphdoc":
                monitoring.set_events(free[0], 0)
                monitoring.free_tool_id(free[0])

        monitoring.use_tool_id(free[0], "graphdoc")
        monitoring.register_callback(free[0], monitoring.events.PY_UNWIND, left)
        monitoring.set_events(free[0], monitoring.events.PY_UNWIND)
        witness.undoing.append(stop)
