"""Which files an installer has put into a folder of ``sys.path``, by its own records there.

``pip install --target FOLDER`` leaves packages beside the records of them (``*.dist-info``), in a folder of any name.
Only what a ``RECORD`` lists was installed: the user's own files may lie in the same folder, and a project that is
installed to be edited is listed nowhere.
"""

from __future__ import annotations

import os
import re
import sys

MOST_BYTES = 20_000_000
"""Of all records of one folder that are read."""
_NAMED = re.compile(r"(.*?[/\\](?:site|dist)-packages)[/\\](.+)", re.DOTALL)
_files: dict[str, frozenset[str]] = {}
"""By folder of ``sys.path``: the modules that were installed there, as paths below it."""


def installed_below(path: str) -> tuple[str, str] | None:
    """The folder that an installed file was put into, and its path below that; None for one that is not installed."""
    named = _NAMED.fullmatch(path)
    if named is not None:
        return named[1], named[2].replace("\\", "/")
    full = os.path.abspath(path)
    for entry in list(sys.path):
        folder = os.path.abspath(entry) if isinstance(entry, str) else ""
        if folder and full.startswith(folder.rstrip(os.sep) + os.sep):
            inner = os.path.relpath(full, folder).replace(os.sep, "/")
            if inner in _recorded(folder):
                return folder, inner
    return None


def _recorded(folder: str) -> frozenset[str]:
    known = _files.get(folder)
    if known is None:
        known = _files[folder] = frozenset(_read(folder))
    return known


def _read(folder: str) -> list[str]:
    found: list[str] = []
    left = MOST_BYTES
    try:
        names = [n for n in os.listdir(folder) if n.endswith(".dist-info")]
    except OSError:
        return []
    for name in names:
        record = os.path.join(folder, name, "RECORD")
        try:
            left -= os.path.getsize(record)
            if left < 0:
                break
            with open(record, encoding="utf-8", errors="replace", newline="") as stream:
                # A path with a comma is quoted: such a module is not told as installed.
                found += [path for line in stream if (path := line.partition(",")[0]).endswith(".py")]
        except OSError:
            continue
    return found
