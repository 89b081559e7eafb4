"""Waiting for a child while passing on to it the signals that reach only the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Those with which terminals, schedulers and containers speak to a job. Left out: what the kernel raises for a fault.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_FROM_KEYBOARD = tuple(s for s in _SIGNALS if s.name in ("SIGINT", "SIGQUIT", "SIGHUP"))


@contextmanager
def relay() -> Iterator[Callable[[subprocess.Popen[bytes], float | None], int]]:
    """Hold back the signals meant for the program and give a function that waits for it and passes them on.

    Enter before the child is started, so that no signal falls between. The function takes the child and a limit in
    seconds (None: no limit), returns the child's ``returncode`` and raises ``subprocess.TimeoutExpired``. A signal
    that is ignored here (``nohup``) stays ignored, in the child too. Outside the main thread nothing is passed on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda process, limit: process.wait(limit)
        return
    early: list[int] = []
    child: list[subprocess.Popen[bytes]] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        if not child:
            early.append(number)
        elif not _typed(number):
            child[0].send_signal(number)

    # A handler, unlike SIG_IGN and a blocked signal, is not inherited by the program that is started.
    before = {s: signal.signal(s, receive) for s in _SIGNALS if signal.getsignal(s) is not signal.SIG_IGN}

    def wait(process: subprocess.Popen[bytes], limit: float | None) -> int:
        for number in early:
            if not _typed(number):
                process.send_signal(number)
        if hasattr(signal, "sigtimedwait"):
            return _wait_with_origin(process, limit, set(before))
        child.append(process)
        return process.wait(limit)

    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait_with_origin(process: subprocess.Popen[bytes], limit: float | None, signals: set[signal.Signals]) -> int:
    """Wait where the kernel tells a signal's origin: what a terminal sends has reached the child by itself."""
    assert sys.platform != "win32" and sys.platform != "darwin"
    end = None if limit is None else time.monotonic() + limit
    watched = signals | {signal.SIGCHLD}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        while process.poll() is None:
            rest = 3600.0 if end is None else end - time.monotonic()
            if rest <= 0:
                raise subprocess.TimeoutExpired(process.args, limit or 0.0)
            info = signal.sigtimedwait(watched, rest)
            from_kernel = info is not None and info.si_code > 0
            if info is not None and info.si_signo != signal.SIGCHLD and not from_kernel:
                process.send_signal(info.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    assert process.returncode is not None
    return process.returncode


def _typed(number: int) -> bool:
    """Whether this was probably sent by the terminal, to the whole foreground group and so to the child as well."""
    if number not in _FROM_KEYBOARD:
        return False
    if sys.platform == "win32":
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def die_by(number: int) -> None:
    """End this process by the signal that ended the program, as a shell expects; returns if that is not possible."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if sys.platform == "win32":
        return
    try:
        import resource

        # The program has left its own core; ours would only take its place.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    except (OSError, ValueError):
        pass
