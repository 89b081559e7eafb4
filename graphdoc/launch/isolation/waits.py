"""How long a run was ready and had no processor, because others held them: time that is not its own."""

from __future__ import annotations

import glob
import os
import time
from contextlib import suppress

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
    told: list[list[str]] = []
    for file in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with suppress(OSError), open(file, encoding="utf-8", errors="replace") as stream:
            told.append(stream.read().split())
    return max((int(words[1]) / 1e9 for words in told if len(words) > 1), default=0.0)
