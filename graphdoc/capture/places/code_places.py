"""What a code object and an instruction stand for: the file and whose it is, line and column of the expression."""

from __future__ import annotations

import hashlib
import itertools
import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, Protocol

from graphdoc.evidence import Frame

OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
"""Our own folder."""
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_positions: dict[int, tuple[CodeType, list[tuple[int | None, int | None, int | None, int | None]]]] = {}
"""By ``id``: hashing a code object reads all of it. The code is kept so that its id stays its own."""
_spots: dict[int, dict[int, int]] = {}
_numbers: dict[tuple[Any, ...], int] = {}
_spot_count = itertools.count()
MOST_SPOTS = 200_000
"""Places remembered at a time; only a program that compiles new code for ever has more."""
_of_libraries: set[str] = set()
"""Names of modules."""


@cache
def _library_folders() -> tuple[str, ...]:
    """Folders whose code is not the user's: the standard library, site-packages, torch, ourselves."""
    found = {OURS}
    for key in ("stdlib", "platstdlib", "purelib", "platlib"):
        path = sysconfig.get_paths().get(key)
        if path:
            found.add(path + os.sep)
    try:
        found.update(p + os.sep for p in site.getsitepackages())
        found.add(site.getusersitepackages() + os.sep)
    except Exception:
        pass
    found.add(os.path.join(sys.base_prefix, "lib") + os.sep)
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch, "__file__", None):
        found.add(os.path.dirname(str(torch.__file__)) + os.sep)
    return tuple(found | {os.path.realpath(f) + os.sep for f in found})


@cache
def is_user_file(name: str) -> bool:
    """Whether a code object's file is the user's own code rather than Python's, torch's or an installed package's."""
    folders, full = _library_folders(), os.path.abspath(name)
    return bool(name_of(name)) or not (
        name.startswith(("<", *folders))
        or full.startswith(folders)
        or installed_below(name) is not None
        # An installer puts scripts beside Python, as ``torchrun`` and ``pytest`` are; they have no suffix.
        or (not name.endswith(".py") and os.path.dirname(full) == sysconfig.get_path("scripts"))
    )


def users_modules() -> list[tuple[str, ModuleType]]:
    """The loaded modules that are the user's, with their files. Those of libraries, thousands, are looked at once."""
    out = []
    for name in [name for name in list(sys.modules) if name not in _of_libraries]:
        module = sys.modules.get(name)
        file = file_of(vars(module)) if isinstance(module, ModuleType) else None
        if module is not None and isinstance(file, str) and is_user_file(file):
            out.append((file, module))
        elif name != "__main__":
            _of_libraries.add(name)
    return out


def users_files() -> str:
    """What tells this program's sources from changed ones: a digest of the files that it has imported, with their sizes
    and times of change, and of its arguments."""
    told = []
    for name, _ in users_modules():
        try:
            found = os.stat(name)
        except OSError:
            continue
        told.append((os.path.abspath(name), found.st_size, found.st_mtime_ns))
    return hashlib.blake2b(repr((sorted(told), sys.argv)).encode(), digest_size=8).hexdigest()


def file_of(values: dict[str, Any]) -> object:
    """The file of a module, by its globals. Python takes ``__file__`` out of ``__main__`` when the script has ended
    (Python/pythonrun.c); the loader still names it."""
    return values.get("__file__") or getattr(values.get("__loader__"), "path", None)


def is_users(module: Any) -> bool:
    """Whether the class of a module is the user's own: its ``__init__`` is written in one of his files."""
    code = getattr(type(module).__init__, "__code__", None)
    return code is not None and is_user_file(code.co_filename)


def forward_of(module: Any) -> CodeType | None:
    """The code of a module's forward, where it is written in one of the user's files."""
    code = getattr(type(module).forward, "__code__", None)
    return code if code is not None and is_user_file(code.co_filename) else None


def begins_at(code: CodeType, cwd: str) -> dict[str, Any]:
    """The first line of code, as a place that the document names."""
    return {"file": shown_file(code.co_filename, cwd), "line": code.co_firstlineno}


def outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A function that runs, the one that called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def entries_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def function_of(code: CodeType) -> str:
    """The function that code belongs to; what Dynamo makes of the rest of one (`resume_in_train_at_6`) is that one."""
    return _RESUMED.sub(r"\1", getattr(code, "co_qualname", code.co_name))


def position(code: CodeType, lasti: int) -> tuple[int, int, int, int]:
    """Line, column, end line, end column (byte offsets from 0, -1 where unknown) of the running instruction."""
    known = _positions.get(id(code))
    if known is None:
        if len(_positions) > MOST_SPOTS:
            _forget_places()
        known = _positions[id(code)] = (code, list(code.co_positions()))
    table = known[1]
    # A frame that has not started has lasti -1; each position entry covers one two-byte code unit.
    line, end_line, column, end_column = table[lasti // 2] if 0 <= lasti // 2 < len(table) else (None,) * 4
    start = line if line is not None else code.co_firstlineno
    return (
        start,
        column if column is not None else -1,
        end_line if end_line is not None else start,
        end_column if end_column is not None else -1,
    )


def characters(file: str, line: int, byte_column: int) -> int:
    """A 1-based column in characters from a 0-based UTF-8 byte offset (0 where unknown)."""
    if byte_column < 0:
        return 0
    text = line_of(file, line)
    if text.isascii():
        return byte_column + 1
    return len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "replace")) + 1


def shown_file(name: str, cwd: str) -> str:
    """The name under which a file is told: relative to the working directory where it lies below it."""
    cell = name_of(name)
    if cell or name.startswith("<"):
        return cell or name
    path = os.path.abspath(os.path.join(cwd, name))
    return os.path.relpath(path, cwd) if path.startswith(cwd.rstrip(os.sep) + os.sep) else path


def spot(code: CodeType, lasti: int) -> int:
    """A number for the expression that an instruction belongs to.

    Positions are compared, not instructions: a call that the interpreter has specialised meanwhile (PRECALL and CALL
    of 3.11) leaves another ``f_lasti`` for the same expression.
    """
    known = _spots.get(id(code))
    if known is not None and lasti in known:
        return known[lasti]
    key = (id(code), position(code, lasti))
    number = _numbers.get(key)
    if number is None:
        number = _numbers[key] = next(_spot_count)
    _spots.setdefault(id(code), {})[lasti] = number
    return number


def _forget_places() -> None:
    for table in (_positions, _spots, _numbers):
        table.clear()


# Which files an installer has put into a folder of ``sys.path``, by its own records there. ``pip install --target
# FOLDER`` leaves packages beside the records of them (``*.dist-info``), in a folder of any name. Only what a
# ``RECORD`` lists was installed: the user's own files may lie in the same folder, and a project that is installed to
# be edited is listed nowhere.

MOST_BYTES = 20_000_000
"""Of all records of one folder that are read."""
_NAMED = re.compile(r"(.*?[/\\](?:site|dist)-packages)[/\\](.+)", re.DOTALL)


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


@cache
def _recorded(folder: str) -> set[str]:
    """The modules that were installed in a folder of ``sys.path``, as paths below it."""
    found = set[str]()
    left = MOST_BYTES
    try:
        names = [n for n in os.listdir(folder) if n.endswith(".dist-info")]
    except OSError:
        return found
    for name in names:
        record = os.path.join(folder, name, "RECORD")
        try:
            left -= os.path.getsize(record)
            if left < 0:
                break
            with open(record, encoding="utf-8", errors="replace", newline="") as stream:
                # A path with a comma is quoted: such a module is not told as installed.
                found.update(path for line in stream if (path := line.partition(",")[0]).endswith(".py"))
        except OSError:
            continue
    return found


# Code that lies in no file, under the names that people know it by: the cells of a notebook.


class Session(Protocol):
    """What knows the cells of a session."""

    def name_of(self, code_name: str) -> str:
        """What the file of a code object is called if it is a cell's (``In[3]``); else an empty string."""

    def is_body(self, code_name: str) -> bool:
        """Whether a code object's file name is that of what a magic has compiled (``%%time``), not of a cell."""

    def body_of(self, text: str) -> tuple[int, str] | None:
        """Of a cell with this text, if it runs by a magic: the lines above the code, and the cell as it was typed with
        the magic as a comment. None for any other."""


sessions: list[Session] = []
"""The sessions that are observed; hardly ever more than one."""

_code_names: dict[str, str] = {}


def name_of(code_name: str) -> str:
    """What a code object's file is called if it is a cell (``In[3]``); else an empty string."""
    for session in sessions:
        name = session.name_of(code_name)
        if name:
            if not session.is_body(code_name):
                _code_names[name] = code_name
            return name
    return ""


def text_of(name: str) -> str | None:
    """The text of the cell with this name, which IPython keeps where tracebacks look for it; None for other names."""
    code_name = _code_names.get(name)
    if code_name is None:
        return None
    text = "".join(lines_of(code_name))
    body = _body_of(text)
    return body[1] if body is not None else text


def _body_of(text: str) -> tuple[int, str] | None:
    return next((body for session in sessions if (body := session.body_of(text)) is not None), None)


def in_its_cell(frame: Frame, code_name: str, outer: list[Frame]) -> Frame:
    """A frame of what a magic runs, at its place in the cell with the magic: the next frame of a cell's further out.

    Code of a magic is compiled under one name for all cells, so its own name does not tell the cell. In ``%%time`` it
    has lines of its own; what stands in a line (``%time f()``) is that line.
    """
    cell = next((f for f in reversed(outer) if f.user), None)
    if cell is None or not any(s.is_body(code_name) for s in sessions):
        return frame
    body = _body_of("".join(lines_of(_code_names.get(cell.file, ""))))
    if body is None:
        return replace(cell, function=frame.function, column=0, end_column=0)  # its text is no expression of the cell's
    return replace(frame, file=cell.file, line=frame.line + body[0], end_line=frame.end_line + body[0])


# Lines of a file as ``linecache`` has them, without an entry of ours in its cache: the program can see that.

MOST_FILES = 16
_read: dict[str, list[str]] = {}


def lines_of(file: str) -> list[str]:
    """The lines; none where the file cannot be read."""
    if file in linecache.cache:  # by the program, or a notebook's cell, which stands nowhere else
        return linecache.getlines(file)
    known = _read.get(file)
    if known is None:
        known = linecache.getlines(file)
        linecache.cache.pop(file, None)
        if known:
            if len(_read) >= MOST_FILES:
                del _read[next(iter(_read))]
            _read[file] = known
    return known


def line_of(file: str, line: int) -> str:
    """One line, counted from 1; empty where there is none."""
    lines = lines_of(file)
    return lines[line - 1] if 0 < line <= len(lines) else ""
