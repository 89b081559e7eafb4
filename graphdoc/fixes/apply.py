"""Patches for ``git apply`` and ``patch -p1``: made from texts, applied to files whole or not at all, taken back."""

from __future__ import annotations

import base64
import contextlib
import glob
import io
import json
import os
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphdoc.documents import read_object
from graphdoc.errors import UsageError
from graphdoc.files import write_beside, write_private
from graphdoc.launch.folders import PLACE, UNDER_WAY, holds, own_place, seal
from graphdoc.line_changes import Change, LineMatcher, parse

_CONTEXT = 3  # lines around a change
_MISSING = "\\ No newline at end of file\n"


def unified(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """The unified diff of all files in ``new`` that differ, with ``a/`` and ``b/`` headers; empty where none does.

    Lines end at ``\\n`` alone, as they do for git: a carriage return belongs to its line. The text is to be written
    with ``newline=""`` and, for a file that is not UTF-8, in that file's encoding.
    """
    changed = {file: old.get(file, "") for file, text in new.items() if old.get(file, "") != text}
    return "".join(_one(file, before, new[file]) for file, before in changed.items())


def _one(file: str, before: str, after: str) -> str:
    left, right = _lines(before), _lines(after)
    # Equal heads and tails are most of a file and need no matcher.
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    start = max(0, head - _CONTEXT)
    stop = max(0, tail - _CONTEXT)
    a, b = left[start : len(left) - stop], right[start : len(right) - stop]
    out = [f"--- {_header('a', file)}\n", f"+++ {_header('b', file)}\n"]
    for group in LineMatcher(a, b).get_grouped_opcodes(_CONTEXT):
        i1, i2, j1, j2 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        out.append(f"@@ -{_range(i1 + start, i2 - i1)} +{_range(j1 + start, j2 - j1)} @@\n")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                out += _marked(" ", a[i:i_end])
            else:
                out += _marked("-", a[i:i_end])
                out += _marked("+", b[j:j_end])
    return "".join(out)


def _lines(text: str) -> list[str]:
    whole, ended, rest = text.rpartition("\n")
    lines = [line + "\n" for line in whole.split("\n")] if ended else []
    return [*lines, rest] if rest else lines


def _marked(mark: str, lines: list[str]) -> list[str]:
    return [mark + line if line.endswith("\n") else f"{mark}{line}\n{_MISSING}" for line in lines]


def _range(start: int, length: int) -> str:
    begin = start + 1 if length else start
    return f"{begin}" if length == 1 else f"{begin},{length}"


def _header(side: str, file: str) -> str:
    name = f"{side}/{file}"
    if any(c in name for c in '"\\\n\r\t'):
        escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return '"' + escaped.replace("\r", "\\r") + '"'
    return name + "\t" if " " in name else name  # the tab ends a name that holds blanks


# Turning a fix's diff into the files' new contents, and writing those: all or none, encoding and line ends kept.


_BOM = b"\xef\xbb\xbf"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def encoding_of(data: bytes) -> str:
    """The encoding that a source file declares (PEP 263), UTF-8 where it declares none or one that does not exist."""
    try:
        return tokenize.detect_encoding(io.BytesIO(data).readline)[0].removesuffix("-sig")
    except SyntaxError:
        return "utf-8"


def patched(diff: str, root: Path) -> dict[Path, bytes]:
    """The new contents of the files that ``diff`` touches; nothing is written. ``root`` is what its paths start from.

    Raises:
        UsageError: a file is missing, lies outside ``root``, or is not the one that the diff was made for.
    """
    found: dict[Path, bytes] = {}
    base = root.resolve()
    for file in parse(diff):
        path = root / file.path
        if base not in path.resolve().parents:
            raise UsageError(f"{file.path} lies outside {base}, so it is left alone")
        try:
            data = path.read_bytes()
        except OSError as e:
            raise UsageError(f"cannot read {file.path}: {e.strerror or e}") from e
        bom = _BOM if data.startswith(_BOM) else b""
        lines = data.removeprefix(bom).split(b"\n")
        encoding = encoding_of(data)
        for change in reversed(file.changes):
            if not _exchange(lines, change, encoding):
                raise UsageError(f"{file.path} has changed since the run: run the program again first")
        found[path] = bom + b"\n".join(lines)
    return found


def _exchange(lines: list[bytes], change: Change, encoding: str) -> bool:
    """Put the new lines in the place of the old ones; False where other lines stand there."""
    try:
        context, old, new = (
            [line.removeprefix("\ufeff").encode(encoding) for line in part]
            for part in ([] if change.before is None else [change.before], change.old, change.new)
        )
    except UnicodeEncodeError:
        return False
    place = change.old_start - 1
    there = lines[place : place + len(old)]
    above = lines[max(0, place - len(context)) : place]
    if above + there != context + old:
        # A diff that has lost its carriage returns on the way still says what to do.
        if [line.removesuffix(b"\r") for line in above + there] != context + old:
            return False
        new = [line.removesuffix(b"\r") + b"\r" for line in new]
    at_end = place + len(old) == len(lines)  # the last of the old lines has no newline
    if not old and place >= len(lines):
        return False
    if at_end and (change.new_newline or not new):
        new.append(b"")
    elif not change.new_newline and not at_end and place + len(old) == len(lines) - 1 and lines[-1] == b"":
        del lines[-1]
    lines[place : place + len(old)] = new
    return True


def apply(texts: Mapping[Path, str | bytes]) -> dict[Path, bytes]:
    """Write new contents, keeping each file's mode, and return the old ones. Either all files change or none.

    A ``str`` is encoded as the file declares and gets the file's line ends. A symbolic link stays one.

    Raises:
        UsageError: a file cannot be written.
    """
    before: dict[Path, bytes] = {}
    ready: list[tuple[Path, Path, Path]] = []
    done: list[Path] = []
    at = Path()
    try:
        for path, text in texts.items():
            at = path
            before[path] = old = path.read_bytes()
            target = Path(os.path.realpath(path))
            if not os.access(target, os.W_OK):
                raise PermissionError(13, "Permission denied")
            ready.append((path, target, write_beside(target, _encoded(text, old), target.stat().st_mode)))
        for path, target, temporary in ready:
            at = path
            os.replace(temporary, target)
            done.append(target)
    except BaseException as e:
        for path, target, temporary in ready:
            temporary.unlink(missing_ok=True)
            if target in done:
                os.replace(write_beside(target, before[path], target.stat().st_mode), target)
        if not isinstance(e, OSError | UnicodeEncodeError):
            raise
        reason = e.strerror if isinstance(e, OSError) else None
        raise UsageError(f"cannot write {at}: {reason or e}; nothing was changed") from e
    return before


def _encoded(text: str | bytes, old: bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    if b"\r\n" in old and "\r" not in text:
        text = text.replace("\n", "\r\n")
    data = text.removeprefix("\ufeff").encode(encoding_of(old))
    return _BOM + data if old.startswith(_BOM) else data


def undo_patch(before: Mapping[Path, bytes], after: Mapping[Path, bytes], root: Path) -> bytes:
    """A unified diff, byte for byte, that leads from ``after`` back to ``before``; for ``git apply`` under ``root``."""
    # Latin-1 stands for the bytes themselves, whatever the file's encoding is.
    names = {p: os.fsencode(os.path.relpath(p, root).replace(os.sep, "/")).decode("latin-1") for p in after}
    old = {name: after[path].decode("latin-1") for path, name in names.items()}
    new = {name: before[path].decode("latin-1") for path, name in names.items()}
    return unified(old, new).encode("latin-1")


def _with_mark(section: str) -> str:
    """The byte order mark belongs to the file's first line; a diff made from text without it needs it to apply."""
    head, at, hunk = section.partition("\n@@ -1")
    numbers, end, body = hunk.partition("\n")
    lines = _LINE.findall(body)
    for sign in "-+":
        place = next((i for i, line in enumerate(lines) if line[0] in (" ", sign)), None)
        if place is not None and not lines[place].startswith("\ufeff", 1):
            lines[place] = lines[place][0] + "\ufeff" + lines[place][1:]
    return head + at + numbers + end + "".join(lines) if at and numbers[:1] in (",", " ") else section


def diff_bytes(diff: str, root: Path) -> bytes:
    """A diff as it must be written to apply: each file's part in the encoding of that file."""
    parts = []
    for section in re.split(r"(?m)^(?=--- [^\n]*\n\+\+\+ )", diff):
        encoding = "utf-8"
        for file in parse(section):
            try:
                data = (root / file.path).read_bytes()
            except OSError:
                continue
            encoding = encoding_of(data)
            if data.startswith(_BOM):
                section = _with_mark(section)
        try:
            parts.append(section.encode(encoding))
        except UnicodeEncodeError:
            parts.append(section.encode("utf-8", "surrogateescape"))
    return b"".join(parts)


# How a patch is made whole or not at all, even where the process is killed between two of its files.


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
