"""What a run may leave behind: a program whose starter is killed, and ranks whose launcher is."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

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
