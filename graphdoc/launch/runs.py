"""The runs that are kept in a folder, by short names that can be typed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from graphdoc.launch.folders import PLACE, RUN_NAME

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
