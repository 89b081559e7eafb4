"""Ctrl-C, SIGTERM and SIGHUP while graphdoc runs programs by itself: they end these at once, and not graphdoc."""

from __future__ import annotations

import glob
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar

from graphdoc.errors import Interrupted

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stop:
    """Whether a signal has come; ``number`` is 0 until then. ``waiting``, one for all of them, is called at every look,
    many times a second."""

    number = 0
    waiting: ClassVar[Callable[[], None] | None] = None

    def check(self) -> None:
        """Raises Interrupted if a signal has come."""
        if self.number:
            raise Interrupted(self.number)
        if Stop.waiting is not None:
            Stop.waiting()


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Note these signals instead of acting on them; who runs something looks at the result often, and once more behind
    the block, where the last one may have come in.

    A signal that is ignored (``nohup``) stays so. Outside the main thread nothing is noted.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def receive(number: int, _frame: FrameType | None) -> None:
        stop.number = stop.number or number

    before = {s: signal.signal(s, receive) for s in _SIGNALS if signal.getsignal(s) is not signal.SIG_IGN}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# One run beside another, where the machine has room for two.


_ACCELERATORS = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dri/renderD*", "/dev/accel*")


def has_room() -> bool:
    """Whether this machine has a core and memory for a second run: two of them, half of it free, and no accelerator,
    whose memory two runs might not share."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            sizes = {words[0]: int(words[1]) for words in map(str.split, stream) if len(words) > 1}
        free = 2 * sizes["MemAvailable:"] > sizes["MemTotal:"]
    except (OSError, ValueError, KeyError):
        return False
    return free and not has_accelerator()


def has_accelerator() -> bool:
    """Whether the system shows the device of one, which the program may use or not."""
    return any(glob.glob(pattern) for pattern in _ACCELERATORS)


class Beside(Stop):
    """Something done in a thread of its own, which ends as everything does when ``stop`` says so."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._threads = ThreadPoolExecutor(1)
        self._work: Future[None] | None = None
        self._over = False

    def check(self) -> None:
        """Raises Interrupted if a signal has come, or in the thread if nobody waits for it any more."""
        self._stop.check()
        if self._over and threading.current_thread() is not threading.main_thread():
            raise Interrupted(signal.SIGTERM)

    def begin(self, work: Callable[[], None]) -> None:
        """Begin, and go on."""
        self._work = self._threads.submit(work)

    @property
    def is_on(self) -> bool:
        return self._work is not None

    def wait(self) -> None:
        """Wait for its end; what it raised is raised here."""
        work, self._work = self._work, None
        if work is not None:
            work.result()

    def end(self) -> None:
        """End it; whatever it raises is nobody's."""
        self._over = True
        self._threads.shutdown()
