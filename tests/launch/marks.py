"""What a folder looks like, and which processes are there: to see that nothing has changed, however a run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphdoc.launch.isolation import Stop


def have_namespaces() -> bool:
    probe = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x00020000))"
    return sys.platform == "linux" and subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0


BOTH = [
    pytest.param("namespaces", marks=pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")),
    "layer",
]


def state(root: Path) -> dict[str, tuple[Any, ...]]:
    """Everything about the files below a folder: kind, mode, time of change, content."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (about.st_mode, about.st_mtime_ns, about.st_ino, content)
    return found


def below(marker: str) -> list[str]:
    """The processes that were started with this text in their command line or environment."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if folder.name.isdigit() and int(folder.name) != os.getpid() and marker.encode() in text:
            found.append(folder.name)
    return found


@contextmanager
def interrupted_when(ready: Path) -> Iterator[Stop]:
    """A ``Stop`` that is told of Ctrl-C as soon as the program has written this file."""
    stop = Stop()

    def interrupt() -> None:
        while not ready.exists():
            time.sleep(0.01)
        stop.number = signal.SIGINT

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    yield stop
    watcher.join()


def kill_when(ready: Path, parent: subprocess.Popen[bytes], marker: str, seconds: float) -> None:
    """Kill a process as soon as this file is there, and wait until no process with the marker is left."""
    end = time.monotonic() + seconds
    while not ready.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    while below(marker):
        assert time.monotonic() < end, below(marker)
        time.sleep(0.05)
