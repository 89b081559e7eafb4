"""Reading one JSON object from a file that may be anybody's: so many bytes at most, and one line on what is wrong.

Standard library only: ``graphdoc.evidence`` needs it, which the user's process loads.
"""

from __future__ import annotations

import json
import os
from typing import Any


class Unreadable(ValueError):
    """The text is one line, with the file's name."""


def read_object(path: str | os.PathLike[str], most: int) -> dict[str, Any]:
    """The object in a file of at most ``most`` bytes, as parsed JSON that nobody has checked yet.

    Raises:
        Unreadable: missing, longer, truncated, not JSON or not an object.
    """
    try:
        with open(path, "rb") as stream:
            text = stream.read(most + 1)
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
