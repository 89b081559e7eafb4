"""A patch is made whole or not at all, even where the process is killed between two of its files."""

from __future__ import annotations

import base64
import contextlib
import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphdoc.documents import read_object
from graphdoc.errors import UsageError
from graphdoc.files import write_private
from graphdoc.fixes.apply import apply, undo_patch
from graphdoc.launch.folders import PLACE, UNDER_WAY, own_place
from graphdoc.launch.trust import holds, seal

UNDO = "undo.patch"
APPLIED = "applied.json"
"""Beside the runs: what the files held before the last patch and hold since, for ``take_back``."""
MOST_BYTES = 100_000_000
"""Of the note on a patch, which holds its files twice."""


def apply_whole(contents: Mapping[Path, bytes], base: Path, cwd: Path) -> Path:
    """Write new contents; returns the patch that undoes it, whose names start from ``base``. ``cwd`` is the run's.

    Raises:
        UsageError: something cannot be written; then nothing has changed.
    """
    before = {path: path.read_bytes() for path in contents}
    try:
        place = own_place(cwd)
        (place / APPLIED).unlink(missing_ok=True)
        write_private(place / UNDO, undo_patch(before, contents, base))
        _note(place, before, contents)
    except OSError as e:
        raise UsageError(f"cannot write {cwd / PLACE / UNDO}, so nothing was changed: {e.strerror or e}") from e
    try:
        apply(contents)
        with contextlib.suppress(OSError):  # the patch is applied, and ``git apply`` takes it back as well
            os.replace(place / UNDER_WAY, place / APPLIED)
    finally:
        (place / UNDER_WAY).unlink(missing_ok=True)
    return place / UNDO


def take_back(cwd: Path) -> list[Path]:
    """Take back the last patch that was applied for a run in ``cwd``; returns the files, which are as they were before.

    Raises:
        UsageError: there is none, a file has changed since, or one cannot be written; then nothing has changed.
    """
    place = cwd / PLACE
    files = None if place.is_symlink() else _noted(place / APPLIED)
    if not files:
        raise UsageError("no fix is applied here that could be taken back")
    changed = next((path for path, _, new in files if _held(path) != new), None)
    if changed is not None:
        raise UsageError(f"{os.path.relpath(changed, cwd)} has changed since the fix, so nothing was taken back")
    before, after = ({path: pair[i] for path, *pair in files} for i in (1, 0))
    try:
        _note(place, before, after)
    except OSError as e:
        raise UsageError(f"cannot write {place}, so nothing was changed: {e.strerror or e}") from e
    try:
        apply(after)
    except BaseException:
        (place / UNDER_WAY).unlink(missing_ok=True)
        raise
    for name in (APPLIED, UNDO, UNDER_WAY):
        (place / name).unlink(missing_ok=True)
    return list(after)


def recover(cwd: Path) -> str:
    """Take back what a ``graphdoc fix`` has half done that was killed here; a line about it, or an empty string.

    Raises:
        UsageError: a file cannot be written.
    """
    note = cwd / PLACE / UNDER_WAY
    if not os.path.lexists(note):
        return ""
    files = _noted(note)
    if files is None:
        return ""
    changed = {path: old for path, old, new in files if _held(path) == new}
    if changed and len(changed) < len(files):
        apply(changed)
    note.unlink(missing_ok=True)
    for path, _, new in files:
        # Made ready, or only begun, and never put in its place: named as graphdoc.files names it (tempfile.mkstemp).
        for left in path.parent.glob(f".{glob.escape(path.name)}-" + "[a-z0-9_]" * 8):
            held = None if left.is_symlink() else _held(left)
            if held is not None and new.startswith(held):
                left.unlink()
    if not changed or len(changed) == len(files):
        return ""
    names = ", ".join(os.path.relpath(path, cwd) for path in changed)
    return f"a `graphdoc fix` was ended before it had changed all of its files; {names} is as it was before"


def _note(place: Path, before: Mapping[Path, bytes], after: Mapping[Path, bytes]) -> None:
    files = [[str(p), *(base64.b64encode(text).decode() for text in (before[p], after[p]))] for p in after]
    document = {"files": files, "seal": seal(files, place)}
    write_private(place / UNDER_WAY, json.dumps(document).encode())


def _noted(note: Path) -> list[tuple[Path, bytes, bytes]] | None:
    """What is being replaced, as this user's own command has noted it here; None for anything else."""
    try:
        document: Any = read_object(note, MOST_BYTES)
        files = document["files"]
        if not holds(document.get("seal"), files, note.parent):
            return None
        return [(Path(path), base64.b64decode(old), base64.b64decode(new)) for path, old, new in files]
    except (ValueError, KeyError, TypeError, AttributeError):  # Unreadable is a ValueError
        return None


def _held(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
