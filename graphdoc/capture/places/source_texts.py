"""Which text of a file has run: read before it can be edited, or compared with the running code where it is too late.

A program that trains for hours is edited meanwhile. The script is read when the capture starts, the modules that it has
imported when it first calls backward; both are held until the program ends. A file that nobody has touched since this
process started holds what ran (a change of a file's content always moves its ctime, inode(7)); of any other one the
text is compiled, and the code compared with what runs.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import threading
import time
import types
from types import CodeType, FrameType
from typing import Any, NamedTuple

from graphdoc.capture.places.code_places import entries_of, is_user_file, shown_file, users_modules
from graphdoc.capture.tensors.access_paths import elements, own_attributes
from graphdoc.documents import decode, digest
from graphdoc.evidence import Evidence

MOST_SOURCE = 1_000_000
"""Bytes of one source file that is embedded; a larger one is only hashed."""
MOST_FILES = 300
DEEPEST, MOST_ELEMENTS = 3, 50
"""How far, and for how many entries of one container, objects are looked for that a running function holds."""
MOST_HELD = 16_000_000
"""Bytes of all files together that are held while the program runs."""

EDITED = "{} was edited while the program ran: what is shown of it is the text that ran, and no patch is made for it"
UNKNOWN = "{} was edited while the program ran, and which text of it ran is not known: its code is not shown"

_COMPILED = ("__compiled_fn_", "__resume_at_", "torch_dynamo_resume_in_")
"""How names begin in what Dynamo makes of a user's function and of its rest (torch/_dynamo/output_graph.py,
resume_execution.py)."""


class Text(NamedTuple):
    """The content of a file, and when it or its place in the folder last changed (seconds since the epoch)."""

    data: bytes
    changed: float


_held: dict[str, Text] = {}
_started: list[float] = []
_finished: list[bool] = []


def remember_script() -> None:
    """Called once torch has been imported: hold the script, which Python has read long before."""
    _started[:] = [_process_start()]
    _held.clear()
    _finished.clear()
    main = sys.modules.get("__main__")
    _hold(getattr(main, "__file__", None))


def remember_modules() -> None:
    """Called before the first backward calls: hold the user's modules; only the first time does anything."""
    if _finished:
        return
    _finished.append(True)
    for file, _ in users_modules():
        _hold(file)


def add_source(evidence: Evidence, name: str, path: str, *, check: bool = True) -> None:
    """Put the text that ran into the document under ``name``, with the hash that tells it from later ones.

    ``check`` compares it with the running code where the file was touched after this process had started.
    """
    path = os.path.abspath(path)
    now = _read(path)
    ran = _held.get(path) or now
    if ran is None:
        return
    if check and ran.changed >= (_started[0] if _started else 0.0) and not _fits(ran.data, path):
        evidence.hashes[name] = ""
        evidence.degraded.append(UNKNOWN.format(name))
        return
    if now is None or now.data != ran.data:
        evidence.degraded.append(EDITED.format(name))
    evidence.hashes[name] = digest(ran.data)
    if len(ran.data) <= MOST_SOURCE:
        evidence.sources[name] = decode(ran.data)


def lines_with(word: bytes, cwd: str) -> list[dict[str, Any]]:
    """The first line of each of the user's files that holds ``word``, as a place that the document names: its text is
    then at hand for whoever asks what the program does elsewhere."""
    return [
        {"file": shown_file(path, cwd), "line": text.data[: text.data.index(word)].count(b"\n") + 1}
        for path, text in _held.items()
        if word in text.data
    ]


_PATH = rb"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[[\"']\w+[\"']\])*)"
REMAINDER = re.compile(rb"%\s*" + _PATH)
"""What a remainder is taken by: ``every`` of ``i % every``, ``args.every``, ``config["every"]``."""
COMPARED = re.compile(_PATH + rb"\s*(?=[!=]=|(?:not\s+)?in\b)|[!=]=\s*" + _PATH)
"""What is asked for single values: ``epoch`` and ``start`` of ``epoch == start``."""


def numbers_named(pattern: re.Pattern[bytes], frames: list[Any]) -> dict[str, int]:
    """The whole numbers that the program writes so somewhere, by their names in the running functions; of an attribute
    also by its name in a method of what those hold: a trainer's callback compares ``self.start``."""
    names = {n.decode() for text in _held.values() for m in pattern.finditer(text.data) for n in m.groups() if n}
    held: list[Any] | None = None
    found: dict[str, set[int]] = {}
    for name in names:
        first, *rest = re.findall(r"\w+", name)
        roots = (frame.f_locals.get(first, frame.f_globals.get(first)) for frame in frames)
        values = {v for root in roots if type(v := _looked_up(root, rest)) is int}
        if not values and rest:
            held = _held_by(frames) if held is None else held
            owners = (o for o in held if first != "self" or _uses(type(o), rest[0]))
            values = {v for o in owners if type(v := _looked_up(o, rest)) is int}
        if values:
            found.setdefault(name.replace('"', "'"), set()).update(values)
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def _looked_up(value: Any, path: list[str]) -> Any:
    """What a path from this value means; None where a class of the program's own would have to tell."""
    for part in path:
        try:
            inside = value if type(value) is dict else object.__getattribute__(value, "__dict__")
        except AttributeError:
            return None
        value = inside.get(part)
    return value


def _held_by(frames: list[Any]) -> list[Any]:
    """The objects of the program's classes that variables of these functions hold, also in a list, and what they hold
    in turn, each once."""
    found: dict[int, Any] = {}
    now = [value for frame in frames for value in [*frame.f_locals.values()]]
    for _ in range(DEEPEST):
        now = [v for value in now for v in (value, *elements(value, MOST_ELEMENTS)) if own_attributes(v)]
        found.update((id(v), v) for v in now)
        now = [v for value in now for v in [*own_attributes(value).values()]]
    return [*found.values()]


def _uses(owner: type, attribute: str) -> bool:
    """Whether a method of the class, or of one above it, names this attribute."""
    methods = (f for cls in owner.__mro__ for f in [*vars(cls).values()] if type(f) is types.FunctionType)
    return any(attribute in f.__code__.co_names for f in methods if is_user_file(f.__code__.co_filename))


def _hold(file: Any) -> None:
    if not isinstance(file, str) or not file.endswith(".py") or not is_user_file(file):
        return
    path = os.path.abspath(file)
    if path in _held or len(_held) >= MOST_FILES:
        return
    try:
        size = os.stat(path).st_size
    except (OSError, ValueError):
        return
    if size <= MOST_SOURCE and size + sum(len(text.data) for text in _held.values()) <= MOST_HELD:
        text = _read(path)
        if text is not None:
            _held[path] = text


def _read(path: str) -> Text | None:
    try:
        with open(path, "rb") as stream:
            found = os.fstat(stream.fileno())
            return Text(stream.read(), max(found.st_ctime, found.st_mtime))
    except (OSError, ValueError):
        return None


def _process_start() -> float:
    """When this process started, in seconds since the epoch; 0 where the system does not say, so that all is compared.

    Field 22 of /proc/self/stat is in clock ticks since the system's start, suspended time included (proc_pid_stat(5)).
    """
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as stream:
            ticks = int(stream.read().rpartition(")")[2].split()[19])
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def _fits(data: bytes, path: str) -> bool:
    """Whether every piece of code of this file that runs or could be called comes from this text."""
    known: dict[tuple[str, int], list[CodeType]] = {}
    pending = _compiled(data, path)
    while pending:
        code = pending.pop()
        known.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
        pending += [c for c in code.co_consts if isinstance(c, CodeType)]
    return bool(known) and all(
        any(_same(code, like) for like in known.get((code.co_qualname, code.co_firstlineno), ()))
        for code in _running(path)
    )


def _compiled(data: bytes, path: str) -> list[CodeType]:
    """What Python makes of this text, and what pytest makes of it, which writes other code for a test's assertions."""
    found = []
    try:
        found.append(compile(data, path, "exec", dont_inherit=True))
        rewrite = getattr(sys.modules.get("_pytest.assertion.rewrite"), "rewrite_asserts", None)
        if rewrite is not None:
            tree = ast.parse(data, path)
            rewrite(tree, data, path)
            found.append(compile(tree, path, "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        pass
    return found


def _same(a: CodeType, b: CodeType) -> bool:
    """Equal instructions, places and constants; nested functions are compared on their own."""

    def parts(code: CodeType) -> tuple[object, ...]:
        constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
        told = [sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c) for c in constants]
        return code.co_code, code.co_linetable, code.co_names, code.co_varnames, told

    return parts(a) == parts(b)


def _running(path: str) -> list[CodeType]:
    """The code objects of this file: on the stacks of all threads and of the last exception, and in its module."""
    found = {id(code): code for code in _on_stacks()}
    users = [module for _, module in users_modules()]
    for module in users if is_user_file(path) else list(sys.modules.values()):
        values = vars(module) if type(module) is types.ModuleType else {}
        if os.path.abspath(str(values.get("__file__", ""))) != path:
            continue
        owners = [values, *(vars(v) for v in values.values() if type(v) is type)]
        functions = [v for owner in owners for v in owner.values() if type(v) is types.FunctionType]
        found.update((id(f.__code__), f.__code__) for f in functions)
    ours = [code for code in found.values() if os.path.abspath(code.co_filename) == path]
    return [code for code in ours if not any(n.startswith(_COMPILED) for n in (code.co_name, *code.co_names))]


def _on_stacks() -> list[CodeType]:
    """What runs, and what ran where the last exception came from.

    Begins at its caller: a function whose variables held its own frame would be a cycle, and the exceptions that it
    has looked at, with all that their frames hold, would live on until Python looks for cycles.
    """
    others = [frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()]
    tops: list[FrameType | None] = [sys._getframe(1), *others]
    for error in (sys.exc_info()[1], getattr(sys, "last_value", None)):
        tops += [entry.tb_frame for entry in entries_of(getattr(error, "__traceback__", None))]
    codes: dict[int, CodeType] = {}
    seen: set[FrameType] = set()
    for top in tops:
        while top is not None and top not in seen:
            seen.add(top)
            codes[id(top.f_code)] = top.f_code
            top = top.f_back
    return list(codes.values())
