"""Other processes than the run's own are out of its reach, as they are where it has process numbers of its own.

What Python has for it is told that there is no such process. A program that is no Python, and C, are held by the kernel
where it can do that (see ``hold_signals`` in ``namespaces.py``), or not started at all (see ``refusals.py``).
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_open, _read, _close, _readlink = os.open, os.read, os.close, os.readlink
_PROC = "/proc"
_BY_NUMBER = ("pidfd_open", "sched_setaffinity", "sched_setscheduler", "sched_setparam")
"""Calls of ``os`` without an audit event whose first argument is a process; 0 is the caller."""


class Processes:
    """The run's processes: all that descend from the one with the number ``keeper``, which gets their orphans too."""

    def __init__(self, keeper: int) -> None:
        self.keeper = keeper

    def watch(self) -> None:
        """Look at every call of this process, and of those that are forked from it, that reaches another one."""
        for name in _BY_NUMBER:
            _exchange("os", name, self._by_number)
        _exchange("os", "setpriority", self._priority)
        _exchange("signal", "pidfd_send_signal", self._by_handle)
        reaches: dict[str, Callable[[Any], Any]] = {
            "os.kill": lambda args: self.check(args[0]),
            "os.killpg": lambda args: self.check(-args[0]),
            "resource.prlimit": lambda args: self.check(args[0]),
            "fcntl.fcntl": self._owner_of_a_file,
        }

        def hook(event: str, args: Any) -> None:
            if event in reaches:
                reaches[event](args)

        sys.addaudithook(hook)

    def check(self, number: Any) -> None:
        """Raise ProcessLookupError for a process that is not the run's; a negative number is a process group."""
        if not isinstance(number, int) or number == 0:
            return  # the call itself shall say what it thinks of it, or this very process and its group are meant
        if number == -1 or not self.own(abs(number)):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    def own(self, number: int) -> bool:
        """Whether a process is this one, or descends from the keeper."""
        if number == os.getpid():
            return True
        above = _parent(number)
        while above > 1 and above != self.keeper:
            above = _parent(above)
        return above == self.keeper

    def _by_number(self, original: Any) -> Any:
        def call(pid: Any, *args: Any, **kwargs: Any) -> Any:
            self.check(pid)
            return original(pid, *args, **kwargs)

        return call

    def _priority(self, original: Any) -> Any:
        def call(which: Any, who: Any, priority: Any) -> Any:
            if which == os.PRIO_USER:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            self.check(who)
            return original(which, who, priority)

        return call

    def _by_handle(self, original: Any) -> Any:
        def call(pidfd: Any, *args: Any, **kwargs: Any) -> Any:
            self.check(_behind(pidfd))
            return original(pidfd, *args, **kwargs)

        return call

    def _owner_of_a_file(self, args: Any) -> None:
        """Who gets the signal for what arrives at a file."""
        if args[1] == getattr(sys.modules.get("fcntl"), "F_SETOWN", None):
            self.check(args[2])


def _exchange(module: str, name: str, make: Callable[[Any], Any]) -> None:
    """Exchange a function, in the module in C that it comes from as well."""
    original = getattr(import_module(module), name, None)
    if original is None:
        return
    made = functools.update_wrapper(make(original), original)
    for place in (module, original.__module__):
        setattr(import_module(place), name, made)


def _parent(number: int) -> int:
    """The number of a process's parent, 0 where there is no such process (proc_pid_stat(5))."""
    if not os.path.isdir(_PROC):
        import subprocess

        told = subprocess.run(["ps", "-o", "ppid=", "-p", str(number)], capture_output=True, check=False).stdout
        return int(told or 0)
    words = _text(f"{_PROC}/{number}/stat").rpartition(b")")[2].split()  # the name before may hold anything
    return int(words[1]) if words else 0


def _behind(pidfd: int) -> int:
    """The process that a handle is on (pidfd_open(2)): one made for it, or its folder in /proc."""
    for line in _text(f"{_PROC}/self/fdinfo/{pidfd}").splitlines():
        if line.startswith(b"Pid:"):
            return int(line.split()[1]) or -1
    try:
        folder = _readlink(f"{_PROC}/self/fd/{pidfd}")
    except OSError:
        return 0  # no open file: the call says so
    name = folder.removeprefix(f"{_PROC}/")
    return int(name) if name.isdecimal() else -1


def _text(path: str) -> bytes:
    try:
        handle = _open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return _read(handle, 4096)
    except OSError:
        return b""  # it has just ended
    finally:
        _close(handle)
