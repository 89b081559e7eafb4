"""Where a process writes what it has seen when its run's folder takes nothing: in memory, else among temporary files.

Standard library only: the capture asks for it inside the user's process, and the parent for the same name outside.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile

MEMORY = "/dev/shm"
"""Linux keeps files below it in memory (shm_overview(7)): it has room when the disk is full."""


def spare_folder(out: str) -> str:
    """The folder that stands in for the run's folder ``out``; the same for everybody who asks. It need not exist."""
    parent = MEMORY if os.path.isdir(MEMORY) and os.access(MEMORY, os.W_OK) else tempfile.gettempdir()
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = hashlib.sha256(os.fsencode(os.path.abspath(out))).hexdigest()[:16]
    return os.path.join(parent, f"graphdoc-{user}-{name}")


def is_private(folder: str) -> bool:
    """Whether it is a real folder that belongs to this user and that nobody else can look or write into."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISDIR(found.st_mode) and mine and (os.name != "posix" or not found.st_mode & 0o077)


def make_spare(out: str) -> str:
    """Make the folder that stands in for ``out``.

    Raises:
        OSError: it cannot be made, or is another user's.
    """
    folder = spare_folder(out)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if not is_private(folder):
        raise OSError(1, "Operation not permitted", folder)
    return folder
