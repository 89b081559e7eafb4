"""Where a search for names starts: the locals of the user's frames, and the globals of his modules."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable
from types import FrameType
from typing import Any

from graphdoc.capture.code_places import file_of, function_of, is_user_file, users_modules

NONE: frozenset[str] = frozenset()


class Root:
    """Where a search starts: a frame's locals or a module's globals. ``passing`` are the names that a loop binds."""

    __slots__ = ("file", "function", "passing", "values")

    def __init__(self, values: dict[str, Any], function: str, file: str, passing: frozenset[str] = NONE) -> None:
        self.values, self.function, self.file, self.passing = values, function, file, passing


def roots_of(frames: Iterable[FrameType]) -> list[Root]:
    """User frames innermost first, then the globals of the user's modules, ``__main__`` before others.

    A launcher in Python (``runpy``) takes the module ``__main__`` away when the script has ended; the frames still have
    its globals.
    """
    out: list[Root] = []
    scopes: dict[int, tuple[dict[str, Any], str]] = {}
    passing: dict[int, frozenset[str]] = {}
    for frame in frames:
        code = frame.f_code
        if code.co_name == "<module>" and is_user_file(code.co_filename):
            passing[id(frame.f_globals)] = loop_names(code)
        scopes.setdefault(id(frame.f_globals), (frame.f_globals, code.co_filename))
        if is_user_file(code.co_filename) and code.co_name != "<module>":
            function = function_of(code)
            out.append(Root(dict(frame.f_locals), function, code.co_filename, loop_names(code)))
    modules = [sys.modules.get("__main__"), *(module for _, module in users_modules())]
    done: set[int] = set()
    for module in modules:
        values = getattr(module, "__dict__", None) if type(module) is types.ModuleType else None
        name = file_of(values) or scopes.get(id(values), ({}, None))[1] if values else None
        if values and id(values) not in done and isinstance(name, str) and is_user_file(name):
            done.add(id(values))
            out.append(Root(dict(values), "<module>", name, passing.get(id(values), NONE)))
    for ident, (values, name) in scopes.items():
        if ident not in done and is_user_file(name):
            out.append(Root(dict(values), "<module>", name, passing.get(ident, NONE)))
    return out


def loop_names(code: types.CodeType) -> frozenset[str]:
    """The names that the ``for`` loops of a code object bind: each is another thing in every round."""
    found: set[str] = set()
    target = False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name == "FOR_ITER":
            target = True
        elif target and name.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")):
            # Later Pythons store two at once, or store one and load the next.
            bound = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            found.update(bound[:1] if name.endswith("LOAD_FAST") else bound)
            target = not name.endswith("LOAD_FAST")
        elif not name.startswith(("UNPACK_", "EXTENDED_ARG", "CACHE", "NOP")):
            target = False
    return frozenset(found)
