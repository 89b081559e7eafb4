"""A patch is made whole or not at all, even where the process is killed between two of its files."""

from __future__ import annotations

import base64
import glob
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphdoc.errors import UsageError
from graphdoc.files import write_private
from graphdoc.fixes.apply import apply, undo_patch
from graphdoc.launch.folders import PLACE, UNDER_WAY, own_place
from graphdoc.launch.trust import holds, seal
from graphdoc.sourcetext import digest

UNDO = "undo.patch"


def apply_whole(contents: Mapping[Path, bytes], base: Path, cwd: Path) -> Path:
    """Write new contents; returns the patch that undoes it, whose names start from ``base``. ``cwd`` is the run's.

    Raises:
        UsageError: something cannot be written; then nothing has changed.
    """
    before = {path: path.read_bytes() for path in contents}
    try:
        place = own_place(cwd)
        write_private(place / UNDO, undo_patch(before, contents, base))
        if len(contents) > 1:
            _note(place, before, contents)
    except OSError as e:
        raise UsageError(f"cannot write {cwd / PLACE / UNDO}, so nothing was changed: {e.strerror or e}") from e
    try:
        apply(contents)
    finally:
        (place / UNDER_WAY).unlink(missing_ok=True)
    return place / UNDO


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
    changed = {path: old for path, old, new in files if _digest(path) == new}
    if changed and len(changed) < len(files):
        apply(changed)
    note.unlink(missing_ok=True)
    for path, _, new in files:
        for left in path.parent.glob(f".{glob.escape(path.name)}-*"):  # made ready and never put in its place
            if left.is_file() and _digest(left) == new:
                left.unlink()
    if not changed or len(changed) == len(files):
        return ""
    names = ", ".join(os.path.relpath(path, cwd) for path in changed)
    return f"a `graphdoc fix` was ended before it had changed all of its files; {names} is as it was before"


def _note(place: Path, before: Mapping[Path, bytes], after: Mapping[Path, bytes]) -> None:
    files = [[str(p), base64.b64encode(before[p]).decode(), digest(after[p])] for p in after]
    document = {"files": files, "seal": seal(files, place)}
    write_private(place / UNDER_WAY, json.dumps(document).encode())


def _noted(note: Path) -> list[tuple[Path, bytes, str]] | None:
    """What is being replaced, as this user's own command has noted it here; None for anything else."""
    try:
        document: Any = json.loads(note.read_bytes())
        files = document["files"]
        if not holds(document.get("seal"), files, note.parent):
            return None
        return [(Path(path), base64.b64decode(old), str(new)) for path, old, new in files]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _digest(path: Path) -> str:
    try:
        return digest(path.read_bytes())
    except OSError:
        return ""
