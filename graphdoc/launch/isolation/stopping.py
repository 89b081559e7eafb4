"""Ctrl-C, SIGTERM and SIGHUP while graphdoc runs a program by itself: they end that run at once, and not graphdoc."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
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
