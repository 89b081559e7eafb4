"""A fork of the program that goes on for a moment, tells some numbers and ends, while the program itself waits.

For runs that graphdoc starts by itself alone. What the fork computes is the program's own next step: same data, same
random numbers, same code. It writes nothing anywhere: what would be written ends it.
"""

from __future__ import annotations

import marshal
import multiprocessing.process
import os
import random
import select
import signal
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

IN_CHILD = object()
"""What ``Forking.run`` gives back in the fork."""
MOST_TOLD = 64_000_000
"""Bytes that a fork may tell."""
_WRITES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.kill"}
_WRITES |= {"os.posix_spawn", "os.system", "os.exec", "os.fork", "os.forkpty", "subprocess.Popen", "shutil.rmtree"}
_WRITES |= {"socket.connect", "socket.bind", "sqlite3.connect", "fcntl.flock", "fcntl.lockf"}
"""Audit events (sys.addaudithook) of what others could notice."""
_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Forking:
    """Makes the forks, one at a time. ``seconds`` and ``forks`` are what they have cost so far."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._torch = witness.torch
        self.cwd = witness.cwd
        self.seconds = 0.0
        self.forks = 0
        self._pipe = -1

    def why_not(self) -> str:
        """Why this process cannot be forked here, as the end of a sentence; empty where it can."""
        torch = self._torch
        if not hasattr(os, "fork") or not os.path.isdir("/proc/self/task"):
            return "it can be forked on Linux alone"
        for name in ("cuda", "xpu", "mps", "mtia"):
            device = getattr(torch, name, None)
            if device is not None and getattr(device, "is_initialized", bool)():
                return f"it uses an accelerator ({name}), which no fork can use"
        distributed = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return "it has a process group, whose other processes would wait for the fork"
        if multiprocessing.process._children:  # type: ignore[attr-defined]
            return "it has child processes (of a DataLoader, perhaps), which a fork would disturb"
        if signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, signal.SIG_IGN):
            return "it looks after child processes by itself"
        return ""

    def run(self, limit: float) -> Any:
        """Fork. In the fork: ``IN_CHILD``. In the program: what the fork has told, or a sentence why it told nothing.

        Args:
            limit: seconds until the fork is ended.
        """
        started = time.monotonic()
        drawn = random.getstate()  # Python seeds this generator anew in each fork (Lib/random.py)
        reading, writing = os.pipe()
        self.forks += 1
        with warnings.catch_warnings(action="ignore"):  # a fork lacks other threads: Python 3.12 warns of it
            child = os.fork()
        if child == 0:
            os.close(reading)
            self._pipe = writing
            random.setstate(drawn)
            self._alone()
            return IN_CHILD
        os.close(writing)
        told = self._told_by(reading, started + limit)
        os.close(reading)
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except OSError:
            pass
        self.seconds += time.monotonic() - started
        return told

    def _told_by(self, reading: int, end: float) -> Any:
        data = b""
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([reading], [], [], left)[0]:
                threads = len(os.listdir("/proc/self/task")) > 1  # one that sleeps (a progress bar's) is not missed
                lacks = ", as one that waits for another thread, which a fork lacks" if threads else ""
                return f"the step took too long in a fork{lacks}"
            part = os.read(reading, 1 << 20)
            if not part:
                break
            data += part
        if not data:
            return "the program ended, or failed, before the step"
        return marshal.loads(data)

    # -- in the fork ---------------------------------------------------------------------------------------------

    def tell(self, told: Any) -> None:
        """Tell this and end, with nothing run that belongs to the program's end."""
        try:
            data = marshal.dumps(told)
            if len(data) > MOST_TOLD:
                data = marshal.dumps("it had too much to tell")
            while data:
                data = data[os.write(self._pipe, data) :]
        finally:
            os._exit(0)

    def _alone(self) -> None:
        """Let go of what the program shares with its fork: output, places in files, what we ourselves write."""
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        for name in os.listdir("/proc/self/fd"):
            self._reopen(int(name), null)
        signal.set_wakeup_fd(-1)
        self._witness.pid = -1  # nothing is told at its end
        self._witness.out = os.devnull  # and nothing before: no file lies below it
        self._witness.step_count = None
        sys.addaudithook(self._audited)

        def refuse(*_: Any) -> None:
            self.tell("the program writes a file in this step")

        self._torch.serialization._open_zipfile_writer = refuse

    def _reopen(self, number: int, null: int) -> None:
        """A file of the program's is read on from where it is, without moving the program's own place in it."""
        import fcntl
        import stat

        if number in (0, 1, 2, null, self._pipe):
            return
        try:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                return
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
            if flags & (os.O_WRONLY | os.O_APPEND):
                os.dup2(null, number)
                return
            place = os.lseek(number, 0, os.SEEK_CUR)
            again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
            os.lseek(again, place, os.SEEK_SET)
            os.dup2(again, number)
            os.close(again)
        except OSError:
            pass  # the one by which they were listed

    def _audited(self, event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & _FLAGS
        if writes and not isinstance(args[0], int) and not str(args[0]).startswith(os.devnull):
            self.tell("the program writes a file in this step")
        elif event in _WRITES:
            self.tell(f"the program reaches out of its process in this step ({event})")
