"""Folders that last no longer than the process that made them, and what a run that was killed may leave behind.

Each process has one folder for all of its own, held (flock) while it lives: the kernel gives the lock back however the
process ends, so no number of a process, which another may have by then, has to be trusted.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from graphdoc.launch.folders import LOCK, hold, lock, made_here, release

PREFIX = "graphdoc-"

_guard = threading.Lock()
_own: dict[int, Path] = {}
"""The folder of this process, by its number: one that was forked has none yet."""


def make_scratch() -> Path:
    """A new, empty folder for this user alone; give it to ``remove_scratch`` when it is no longer needed.

    Raises:
        OSError: there is no place for it.
    """
    with _guard:
        base = _own.get(os.getpid())
        if base is None or not base.is_dir():
            sweep()
            base = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                hold(base)
            except OSError:
                (base / LOCK).unlink(missing_ok=True)  # no locks on this file system: nobody will sweep it away
            _own[os.getpid()] = base
        return Path(tempfile.mkdtemp(prefix="", dir=base))


def remove_scratch(folder: Path) -> None:
    """Remove a folder that ``make_scratch`` has made, and with the last one all that is left of them."""
    shutil.rmtree(folder, ignore_errors=True)
    with _guard:
        base = _own.get(os.getpid())
        if base == folder.parent and set(_names(base)) <= {LOCK}:
            _own.pop(os.getpid())
            shutil.rmtree(base, ignore_errors=True)
            release(base)


@contextmanager
def scratch() -> Iterator[Path]:
    """``make_scratch`` for as long as the block lasts."""
    folder = make_scratch()
    try:
        yield folder
    finally:
        remove_scratch(folder)


def sweep() -> None:
    """Remove what processes have left that were killed: folders that this user's graphdoc has made and nobody holds."""
    place = Path(tempfile.gettempdir())
    for name in _names(place):
        if name.startswith(PREFIX) and made_here(place / name):
            _remove_if_left(place / name)


def _remove_if_left(folder: Path) -> None:
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return
    try:
        if not lock(handle):
            return
        # The mark comes last: what cannot be removed today is tried again.
        for name in _names(folder):
            if name != LOCK:
                shutil.rmtree(folder / name, ignore_errors=True)  # follows no link
        if _names(folder) == [LOCK]:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass
    finally:
        os.close(handle)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


# What a run may leave behind: a program whose starter is killed, and ranks whose launcher is.

_PDEATHSIG = 1  # linux/prctl.h
GRACE = 5.0
"""Seconds that ranks have to end before they are killed."""


def tied() -> Callable[[], None] | None:
    """What a child calls before its program starts, so that it is asked to end (SIGTERM) when this process is killed.

    torchrun gives each rank a session of its own: only the launcher, asked to end, reaches them. None where the system
    has no such signal (prctl(2), PR_SET_PDEATHSIG: Linux).
    """
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


def end_ranks(out: Path) -> None:
    """End the ranks of an observed run that are still there: asked first, then killed.

    A launcher that died has not ended them, and they would train on. What else a program leaves running it leaves on
    purpose, as without graphdoc.
    """
    limit = time.monotonic() + GRACE
    asked: set[int] = set()
    while ranks := _ranks(out):
        kill = time.monotonic() > limit
        for pid in ranks:
            if kill or pid not in asked:
                asked.add(pid)
                try:
                    os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
                except OSError:
                    pass
        if time.monotonic() > limit + GRACE:
            return
        time.sleep(0.05)


def _ranks(out: Path) -> list[int]:
    """The running processes that torchrun has started below this run, known by their environment (proc_pid_environ(5)):
    what a process changes in its own is not seen there.
    """
    ours = b"GRAPHDOC_OUT=" + os.fsencode(str(out.absolute()))
    found = []
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                variables = stream.read().split(b"\0")
        except OSError:
            continue
        if ours in variables and any(v.startswith(b"TORCHELASTIC_RUN_ID=") for v in variables):
            found.append(int(name))
    return found
