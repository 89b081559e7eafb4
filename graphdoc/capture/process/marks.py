"""How far this process has come, told to the parent by the names of empty files."""

from __future__ import annotations

import os


def process_name() -> str:
    """What this process calls its files in the run's folder: its number, and its machine's name where that is another
    one than that of the command which has made the folder (or where no one command has).

    The same words as in ``graphdoc/launch/hook/sitecustomize.py``, which can import nothing.
    """
    starter = os.environ.get("GRAPHDOC_HOST")
    host = os.uname().nodename if starter is not None and hasattr(os, "uname") else starter
    return str(os.getpid()) if host == starter else f"{os.getpid()}@{host}"


def leave(out: str, state: str) -> None:
    """Make ``process-<name>.<state>`` in the run's folder; the states are those of ``graphdoc.launch.keep``.

    An empty file needs no room, so also a full disk takes it. Never raises.
    """
    try:
        os.close(os.open(os.path.join(out, f"process-{process_name()}.{state}"), os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass
