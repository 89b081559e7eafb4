"""Writing files whole: a reader sees the old content or the new. And the folder that stands in for a full one."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically, keeping the mode of a file that is already there.

    A symbolic link stays a link: the file behind it is replaced. Pipes and devices (``/dev/stdout``) are written to
    directly.

    Raises:
        OSError: the file or its folder cannot be written; nothing is left behind.
    """
    target = Path(os.path.realpath(path))
    try:
        mode: int | None = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory", str(path))
        with open(path, "wb") as stream:
            stream.write(data)
        return
    if mode is not None and not os.access(target, os.W_OK):
        # Replacing would work wherever the folder is writable, but a read-only file was made so on purpose.
        raise PermissionError(13, "Permission denied", str(path))
    _replace(target, data, mode)


def write_private(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` atomically, for this user's eyes alone (mode 0600).

    A link in that place is replaced, never followed: it may be a stranger's, in a repository.

    Raises:
        OSError: the folder cannot be written; nothing is left behind.
    """
    _replace(path, data, 0o600)


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    temporary = write_beside(target, data, mode)
    try:
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_beside(target: Path, data: bytes, mode: int | None) -> Path:
    """Write ``data`` to a new file in the folder of ``target`` and return it, ready for ``os.replace``.

    ``mode`` is the ``st_mode`` it gets; None stands for what a newly made file has.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is None:
            umask = os.umask(0)
            os.umask(umask)
            mode = 0o666 & ~umask
        os.chmod(temporary, stat.S_IMODE(mode))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


# Where a process writes what it has seen when its run's folder takes nothing: in memory, else among temporary files.
# The capture asks for it inside the user's process, and the parent for the same name outside.


MEMORY = "/dev/shm"
"""Linux keeps files below it in memory (shm_overview(7)): it has room when the disk is full."""


def spare_folder(out: str) -> str:
    """The folder that stands in for the run's folder ``out``; the same for everybody who asks. It need not exist."""
    import hashlib  # loads OpenSSL, and is seldom wanted

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
