"""The folders that runs are kept in: made for this user alone and sealed, held while a run goes on, cleared later."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import re
import shutil
import stat
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from graphdoc.files import is_private, spare_folder, write_private

# What this user ran here: a seal that a kept run carries, made with a key that no repository can hold. Files of a
# run are data: they may have come with a repository, an archive or a CI job. So the command in them is never run, and
# nothing is deleted for their sake, unless they carry the seal of this user for this very place.


_SIZE = 32


def seal(document: Any, place: Path) -> str:
    """A keyed digest (HMAC-SHA256, hexadecimal) of ``document`` at ``place``; empty where no key can be kept."""
    key = _key(make=True)
    return "" if key is None else _digest(key, document, place)


def holds(given: object, document: Any, place: Path) -> bool:
    """Whether ``given`` is the seal that this user gave this document at this place, and both are still his."""
    key = _key(make=False)
    if key is None or not isinstance(given, str) or not given.isascii() or not owned(place):
        return False
    return hmac.compare_digest(given, _digest(key, document, place))


def owned(path: Path) -> bool:
    """Whether this user owns the file or folder itself; a link is never his."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and _mine(found)


def private_folder(path: Path) -> bool:
    """Whether the folder is there, made if need be, and nobody but this user can write into it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and _mine(found) and not found.st_mode & 0o022


def _digest(key: bytes, document: Any, place: Path) -> str:
    words = json.dumps([document, os.path.realpath(place)], sort_keys=True)
    return hmac.new(key, words.encode("utf-8", "backslashreplace"), hashlib.sha256).hexdigest()


def _mine(found: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or found.st_uid == os.getuid()


def _folders() -> list[Path]:
    """Where the key is kept: the state folder of the XDG specification, else (a read-only home) a temporary one."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    user = os.getuid() if hasattr(os, "getuid") else 0
    found = [Path(tempfile.gettempdir(), f"graphdoc-key-{user}")]
    return [Path(state, "graphdoc"), *found] if os.path.isabs(state) else found


def _key(*, make: bool) -> bytes | None:
    for folder in _folders():
        file = folder / "key"
        known = _read(file)
        if known is not None:
            return known
        if make and private_folder(folder) and not os.path.lexists(file):
            _write(file)
            known = _read(file)
            if known is not None:
                return known
    return None


def _read(file: Path) -> bytes | None:
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or not _mine(found) or (os.name == "posix" and found.st_mode & 0o077):
            return None
        data = stream.read(_SIZE + 1)
    return data if len(data) == _SIZE else None


def _write(file: Path) -> None:
    """A new key, whole or not at all; of two processes that do this at once, the first one's stays."""
    try:
        handle, name = tempfile.mkstemp(prefix=".key-", dir=file.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(os.urandom(_SIZE))
            os.link(name, file)
        finally:
            os.unlink(name)
    except OSError:
        pass


PLACE = ".graphdoc"
KEPT_RUNS = 10
ROOM = 8_000_000
"""Bytes that must be free where a run is kept: more than the evidence of a failure usually takes."""
LOCK = "run.lock"
"""Held (flock) as long as the run goes on; its text seals the folder as one that graphdoc has made for this user."""
UNDER_WAY = "applying.json"
"""Beside the runs while a patch is being applied: what its files held, for ``graphdoc.fixes.apply``."""

RUN_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}-\d+")
"""What the folder of a run is called: when it began, and the process that keeps it."""

_held: dict[Path, int] = {}


def new_run(cwd: Path) -> Path:
    """Make the folder for a new run, hold it, and clear away all but the newest runs that have ended.

    Raises:
        OSError: it cannot be made there (a read-only folder, a full disk, a link in its place). See ``temporary_run``.
    """
    place = own_place(cwd)
    free = _free(place)
    if free is not None and free < ROOM:
        _remove_empty(place)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    ignore = place / ".gitignore"
    if not os.path.lexists(ignore):
        try:
            write_private(ignore, b"*\n")
        except OSError:
            _remove_empty(place)
            raise
    _clear(place)
    folder = place / f"{datetime.now():%Y%m%dT%H%M%S.%f}-{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        hold(folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def own_place(cwd: Path) -> Path:
    """``.graphdoc`` in a folder, made if need be; a real folder of this user's.

    Raises:
        OSError: something else stands there, or it cannot be made.
    """
    place = cwd / PLACE
    place.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(place)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link")
    if hasattr(os, "getuid") and os.getuid() not in (0, found.st_uid):
        raise OSError(errno.EPERM, "it belongs to another user")
    return place


def temporary_run() -> Path:
    """Make a folder for a run outside the working directory: where temporary files go, or in memory.

    Raises:
        OSError: not even that is possible.
    """
    failed: OSError | None = None
    for parent in (None, "/dev/shm"):
        try:
            folder = Path(tempfile.mkdtemp(prefix="graphdoc-", dir=parent))
        except OSError as e:
            failed = failed or e
            continue
        free = _free(folder)
        if free is None or free >= ROOM:
            return folder
        folder.rmdir()
        failed = failed or OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert failed is not None
    raise failed


def hold(folder: Path) -> None:
    """Mark a new folder as ours and hold it until ``release`` or the end of this process.

    Raises:
        OSError: nothing can be written there.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        lock(handle)  # before the seal: whoever finds that finds the folder held
        os.write(handle, seal({"run": folder.name}, folder).encode())
    except OSError:
        os.close(handle)
        raise
    _held[folder] = handle


def release(folder: Path) -> None:
    """The run in this folder is over: it may be cleared away when its time comes."""
    handle = _held.pop(folder, None)
    if handle is not None:
        os.close(handle)


def _clear(place: Path) -> None:
    """Remove the oldest runs, only such as graphdoc has made here for this user and nobody holds any more."""
    ours = sorted(f for f in place.iterdir() if RUN_NAME.fullmatch(f.name) and made_here(f))
    for folder in ours[: max(0, len(ours) - KEPT_RUNS + 1)]:
        try:
            handle = os.open(folder / LOCK, os.O_RDWR)
        except OSError:
            continue
        try:
            if lock(handle):
                shutil.rmtree(folder, ignore_errors=True)  # follows no link
                spare = spare_folder(str(folder))
                if is_private(spare):
                    shutil.rmtree(spare, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(handle)


def made_here(folder: Path) -> bool:
    """Whether graphdoc has made this folder, for this user and in this place: it carries the seal."""
    lock = folder / LOCK
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode) or not stat.S_ISREG(os.lstat(lock).st_mode):
            return False
        with open(lock, encoding="ascii", errors="replace") as stream:
            given = stream.read(200)
    except OSError:
        return False
    return holds(given, {"run": folder.name}, folder)


def lock(handle: int) -> bool:
    """Take the lock of a folder; False where another process has it. Where locks are unknown, nothing is locked."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _free(folder: Path) -> int | None:
    """Bytes that an ordinary user may still write there; None where that is not told."""
    try:
        found = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None


def _remove_empty(place: Path) -> None:
    try:
        place.rmdir()
    except OSError:
        pass


# The runs that are kept in a folder, by short names that can be typed.

_SHORTEST = 4


def kept_runs(cwd: Path) -> dict[str, Path]:
    """The folders of the runs that are kept in ``cwd``, the newest first, each by a short name.

    The name stays the same for as long as a run is kept; it has four letters, more where two runs would share them.
    """
    place = cwd / PLACE
    if place.is_symlink() or not place.is_dir():
        return {}
    folders = [f for f in place.iterdir() if RUN_NAME.fullmatch(f.name) and f.is_dir() and not f.is_symlink()]
    folders.sort(key=lambda f: f.name, reverse=True)
    named: dict[str, Path] = {}
    for folder in reversed(folders):  # a later run never renames an earlier one
        digest = hashlib.sha256(folder.name.encode()).hexdigest()
        length = next(n for n in range(_SHORTEST, len(digest) + 1) if digest[:n] not in named)
        named[digest[:length]] = folder
    return dict(reversed(named.items()))
