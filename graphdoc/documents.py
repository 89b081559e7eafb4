"""Reading a file that may be anybody's, as source or as a JSON object, and typed objects from that: within bounds.

Standard library only: ``graphdoc.evidence`` needs it, which the user's process loads.
"""

from __future__ import annotations

import dataclasses
import errno
import gc
import io
import json
import os
import stat
import tokenize
import types
import typing
from collections.abc import Callable
from functools import cache
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


# Typed objects from parsed JSON.

MOST_ITEMS = 50_000
"""Of one list or object; the capture writes far fewer."""
MOST_TEXT = 4_000_000
"""Characters of one text; a source file of that length is not embedded either."""

Build = Callable[[Any], Any]


@dataclasses.dataclass
class Cuts:
    """How often something was longer than it is read; one for each document."""

    count: int = 0


_cuts = Cuts()


def build(kind: type, value: Any) -> tuple[Any, int]:
    """An object of the dataclass ``kind`` from parsed JSON, and how many lists, objects and texts of it were cut.

    Raises:
        TypeError: a value is of another type than the annotation says, or one without a default is missing.
    """
    _cuts.count = 0
    collecting = gc.isenabled()
    gc.disable()  # nothing here is garbage, and a search among a million new objects costs more than they did
    try:
        return _builder(kind)(value), _cuts.count
    finally:
        if collecting:
            gc.enable()


@cache
def _builder(hint: Any) -> Build:
    """The function that checks and converts a value for one annotation."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    origin = typing.get_origin(hint)
    if origin is list:
        return _list(_builder(typing.get_args(hint)[0]))
    if origin is dict:
        return _dict(_builder(typing.get_args(hint)[1]))
    if origin is types.UnionType or origin is typing.Union:
        inner = _builder(next(a for a in typing.get_args(hint) if a is not type(None)))
        return lambda value: None if value is None else inner(value)
    if hint is Any:
        return lambda value: value
    return _plain(hint)


def _plain(hint: type) -> Build:
    def check(value: Any) -> Any:
        kind = type(value)
        if kind is hint:
            if hint is str and len(value) > MOST_TEXT:
                _cuts.count += 1
                return value[:MOST_TEXT]
            return value
        if hint is float and kind is int:
            return float(value)
        raise TypeError(f"expected {hint.__name__}, got {kind.__name__}")

    return check


def _list(inner: Build) -> Build:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise TypeError(f"expected a list, got {type(value).__name__}")
        if len(value) > MOST_ITEMS:
            _cuts.count += 1
            value = value[:MOST_ITEMS]
        return [inner(v) for v in value]

    return check


def _dict(inner: Build) -> Build:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected an object, got {type(value).__name__}")
        if len(value) > MOST_ITEMS:
            _cuts.count += 1
            value = dict(list(value.items())[:MOST_ITEMS])
        return {k: inner(v) for k, v in value.items()}

    return check


def _dataclass(kind: Any) -> Build:
    hints = typing.get_type_hints(kind)
    known = {f.name: _builder(hints[f.name]) for f in dataclasses.fields(kind)}

    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise TypeError(f"expected an object for {kind.__name__}, got {type(value).__name__}")
        return kind(**{k: known[k](v) for k, v in value.items() if k in known})

    return check


# A source file's bytes as text, and whether a text is the one that a file holds.


MOST_BYTES = 16_000_000
"""Of a file that is read as source; nobody has written a longer one."""


def decode(data: bytes) -> str:
    """Source bytes as text, in the encoding that the file itself declares (PEP 263), line endings kept."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        return data.decode("utf-8", "replace")


def digest(data: bytes) -> str:
    """How the evidence names the content of a file: its SHA-256."""
    import hashlib  # loads OpenSSL, which what only reads has no need of

    return hashlib.sha256(data).hexdigest()


def read_source(path: str) -> bytes | None:
    """The content of a regular file of ordinary size, or None."""
    try:
        data = read_regular(path, MOST_BYTES + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= MOST_BYTES else None
