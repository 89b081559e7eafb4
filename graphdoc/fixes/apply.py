"""Turning a fix's diff into the files' new contents, and writing those: all or none, encoding and line ends kept."""

from __future__ import annotations

import io
import os
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path

from graphdoc.errors import UsageError
from graphdoc.files import write_beside
from graphdoc.fixes.diff import unified
from graphdoc.unified_diff import Change, parse

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
