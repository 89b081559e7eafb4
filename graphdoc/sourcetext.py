"""A source file's bytes as text, and whether a text is the one that a file holds. Standard library only."""

from __future__ import annotations

import hashlib
import io
import tokenize

from graphdoc.documents import read_regular

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
    return hashlib.sha256(data).hexdigest()


def read_source(path: str) -> bytes | None:
    """The content of a regular file of ordinary size, or None."""
    try:
        data = read_regular(path, MOST_BYTES + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= MOST_BYTES else None
