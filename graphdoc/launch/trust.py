"""What this user ran here: a seal that a kept run carries, made with a key that no repository can hold.

Files of a run are data. They may have come with a repository, an archive or a CI job, so the command in them is never
run, and nothing is deleted for their sake, unless they carry the seal of this user for this very place.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

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
