"""How far this process has come, told to the parent by the names of empty files."""

from __future__ import annotations

import os


def leave(out: str, state: str) -> None:
    """Make ``process-<pid>.<state>`` in the run's folder; the states are those of ``graphdoc.launch.seen``.

    An empty file needs no room, so also a full disk takes it. Never raises.
    """
    try:
        os.close(os.open(os.path.join(out, f"process-{os.getpid()}.{state}"), os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass
