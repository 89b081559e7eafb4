"""What a folder looks like, and which processes are there: to see that nothing has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


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
