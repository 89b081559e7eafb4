"""When a trial run has told enough, and how it says so. Who waits for it reads this too, without torch."""

from __future__ import annotations

import os
import time

AFTER, LEAST, PATIENCE = 60, 24, 5.0
"""Journal events behind the point of the failure after which a run has told enough; fewer do after so many seconds."""
LATE = 20.0
"""Seconds that a rank may be behind the first one."""
ENOUGH = "enough"
"""The file in the run's folder that says so: whoever started the run ends it then."""


class Ending:
    """Says when enough was seen behind the point of the failure, a journal index (-1: there is none).

    The run goes on until it is ended from outside, with all of its processes at once: a rank that left by itself would
    only make the others fail.
    """

    def __init__(self, folder: str, point: int) -> None:
        self.point = point
        self._file = os.path.join(folder, ENOUGH)
        self._since: float | None = None
        self._told = False

    def is_due(self, index: int) -> bool:
        """Whether to say so now, behind the call with this index; true once."""
        if self._told or self.point < 0 or index <= self.point:
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = now
        beyond = index - self.point
        self._told = beyond > AFTER or (beyond > LEAST and now - self._since > PATIENCE)
        return self._told

    def tell(self) -> None:
        with open(self._file, "w"):
            pass

    def tell_of_all(self, rank: int, ranks: int) -> None:
        """Say so where each of the ranks has told enough; the first one waits for the others, for a while."""
        if rank > 0:
            with open(f"{self._file}-{rank}", "w"):
                return
        until = time.monotonic() + LATE
        while time.monotonic() < until and not all(os.path.exists(f"{self._file}-{n}") for n in range(1, ranks)):
            time.sleep(0.02)
        self.tell()
