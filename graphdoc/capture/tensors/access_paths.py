"""What containers hold, read without running their code; paths to a value, as text and followed; search roots."""

from __future__ import annotations

import dis
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any

from graphdoc.capture.places.code_places import file_of, function_of, is_user_file, users_modules
from graphdoc.evidence import Step

# What a container holds, read as Python's own: a class of the program's may index and iterate in its own way.


def elements(value: Any, most: int | None = None) -> list[Any]:
    """The elements of a tuple, list or deque, the values of a dict; none of its class's methods is called."""
    mro = type(value).__mro__
    for base in (tuple, list, deque):
        if base in mro:
            return list(islice(base.__iter__(value), most))
    return list(islice(dict.values(value), most)) if dict in mro else []


def size(value: Any) -> int:
    """How many elements a tuple, list, deque or dict has."""
    mro = type(value).__mro__
    return next((base.__len__(value) for base in (tuple, list, deque, dict) if base in mro), 0)


def numbers_in(value: Any, depth: int = 6) -> Iterator[Any]:
    """What lies in lists within lists, as ``tolist`` gives them."""
    for inner in elements(value):
        if isinstance(inner, list | tuple) and depth:
            yield from numbers_in(inner, depth - 1)
        else:
            yield inner


# Access paths: as text, followed to the object, and how tensors are nested in what stands there.

Path = tuple[Step, ...]


def resolve(root: Root, path: Path) -> Any:
    """The object at a path of names and attributes; None where it is no longer there."""
    value = root.values.get(path[0].key)
    for step in path[1:]:
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = {}
        if step.key in own:
            value = own[step.key]
        else:
            tables = [own.get(t) for t in ("_parameters", "_buffers", "_modules")]
            table = next((t for t in tables if isinstance(t, dict) and dict.__contains__(t, step.key)), None)
            if table is not None:
                value = dict.__getitem__(table, step.key)
            else:
                try:
                    value = object.__getattribute__(value, step.key)
                except AttributeError:
                    return None
    return value


def structure_of(value: Any, torch: Any, depth: int = 0) -> Any:
    """How tensors are nested in a value, in the words of ``graphdoc.fixes.structures``; None where it is mixed."""
    mro = type(value).__mro__
    if torch.Tensor in mro or value is None or type(value) in (int, float, str, bool):
        return "tensor" if torch.Tensor in mro else "value"
    if depth <= 2 and tuple in mro:
        inner = [structure_of(v, torch, depth + 1) for v in elements(value, 16)]
        whole = inner and None not in inner and size(value) <= 16
        return {"namedtuple" if hasattr(type(value), "_fields") else "tuple": inner} if whole else None
    if depth <= 2 and (type(value) in (list, deque) or dict in mro):
        held = elements(value, 200)
        kinds = [structure_of(v, torch, depth + 1) for v in held if v is not None]
        # What is detached by one comprehension must look the same throughout, or not be there.
        if not kinds or any(k != kinds[0] for k in kinds) or kinds[0] in (None, "value"):
            return None
        name = "dict" if dict in mro else type(value).__name__
        return {name: kinds[0] if len(kinds) == len(held) else {"optional": kinds[0]}}
    names = type(value).__dataclass_fields__ if depth <= 2 and is_frozen(type(value)) else ()
    found = {name: structure_of(_field(value, name), torch, depth + 1) for name in names}
    kept = {name: s for name, s in found.items() if s != "value"}
    return {"dataclass": kept} if kept and None not in found.values() else None


def _field(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def is_frozen(cls: type) -> bool:
    """Whether a class is a frozen dataclass, whose fields no statement can assign (``dataclasses.dataclass``)."""
    params = cls.__dict__.get("__dataclass_params__")
    return bool(getattr(params, "frozen", False))


def text_of(path: Path) -> str:
    """The access path as Python text; children of nn.Sequential and ModuleList as PyTorch names them (``net.0``)."""
    out = path[0].key
    for step in path[1:]:
        if step.kind in ("attribute", "field"):
            out += f".{step.key}"
        elif step.kind == "cell":
            out += f".<closure>.{step.key}"
        else:
            out += f"[{step.key}]"
    return out


# Where a search for names starts: the locals of the user's frames, and the globals of his modules.

NONE: frozenset[str] = frozenset()


@dataclass(eq=False)
class Root:
    """Where a search starts: a frame's locals or a module's globals. ``passing`` are the names that a loop binds."""

    values: dict[str, Any]
    function: str
    file: str
    passing: frozenset[str] = NONE


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


def own_attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object of a class of the program's own, a trainer or a meter, and of a ``SimpleNamespace``;
    none of anything else. Calls nothing that a class may override."""
    kind = type(value)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    own = kind is types.SimpleNamespace or (isinstance(file, str) and is_user_file(file))
    held = getattr(value, "__dict__", None) if own else None
    return held if type(held) is dict else {}


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
