"""Reading a file that may be anybody's, and a JSON object from it: so many bytes at most, one line on what is wrong.

Standard library only: ``graphdoc.evidence`` needs it, which the user's process loads.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any


class Unreadable(ValueError):
    """The text is one line, with the file's name."""


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The first ``most`` bytes of a regular file. Nobody is waited for at a pipe, and no device is read without end.

    Raises:
        OSError: it cannot be read, or is something else than a file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        with open(handle, "rb", closefd=False) as stream:
            return stream.read(most)
    finally:
        os.close(handle)


def read_object(path: str | os.PathLike[str], most: int) -> dict[str, Any]:
    """The object in a file of at most ``most`` bytes, as parsed JSON that nobody has checked yet.

    Raises:
        Unreadable: missing, longer, truncated, not JSON or not an object.
    """
    try:
        text = read_regular(path, most + 1)
        if len(text) > most:
            raise Unreadable(f"{path} is longer than {most // 1_000_000} MB, which nothing is that graphdoc writes")
        if not text.lstrip().startswith((b"{", b"[", b"null")):
            raise Unreadable(f"{path} is not what graphdoc writes: {'no JSON' if text.strip() else 'nothing is in it'}")
        data = json.loads(text)
    except OSError as e:
        raise Unreadable(f"cannot read {path}: {e.strerror}") from e
    except Unreadable:
        raise
    except (ValueError, RecursionError, MemoryError) as e:
        raise Unreadable(f"{path} is truncated or damaged: {e}") from e
    if not isinstance(data, dict):
        raise Unreadable(f"{path} is damaged: not a JSON object")
    return data
