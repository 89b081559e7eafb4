"""How long a run was ready and had no processor, because others held them: time that is not its own."""

from __future__ import annotations

import os
import time

from graphdoc.launch.isolation.keeper import descendants

MOST = 3.0
"""How often its seconds a run may wait for a processor on top of them."""
_PAUSE = 1.0


def patience(seconds: float) -> float:
    """How long runs that have so many seconds may wait for a processor on top: not at all where the machine is free."""
    if not hasattr(os, "sched_getaffinity"):
        return 0.0
    return MOST * seconds if os.getloadavg()[0] > len(os.sched_getaffinity(0)) else 0.0


class Waits:
    """``seconds`` for which the thread that waited longest had no processor, of a process and all that came of it; at
    most ``most``. 0.0 where the kernel does not tell. Asked once a second, for it looks at all processes."""

    def __init__(self, pid: int, most: float) -> None:
        self._pid, self._most = pid, most
        self._looked = time.monotonic()
        self.seconds = 0.0

    def look(self) -> float:
        """The same, up to now."""
        now = time.monotonic()
        if self._most and now - self._looked >= _PAUSE:
            self._looked = now
            told = max(map(_of_process, (self._pid, *descendants(self._pid))))
            self.seconds = min(max(self.seconds, told), self._most)
        return self.seconds


def _of_process(pid: int) -> float:
    waits = (_read(f"/proc/{pid}/task/{task}/schedstat").split() for task in _entries(f"/proc/{pid}/task"))
    return max((int(told[1]) / 1e9 for told in waits if len(told) > 1), default=0.0)


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
