"""Names: how the user's program reaches a module, a parameter, an optimizer or a tensor, searched from live frames."""

from __future__ import annotations

import dis
import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from graphdoc.capture.containers import elements, size
from graphdoc.capture.places import is_user_file, shown_file
from graphdoc.capture.privates import Privates
from graphdoc.evidence import Holder, Step

MOST_OBJECTS = 50_000
MOST_PER_CONTAINER = 2_000
DEEPEST = 9
MOST_HOLDERS = 6

Path = tuple[Step, ...]

NONE: frozenset[str] = frozenset()


class Root:
    """Where a search starts: a frame's locals or a module's globals. ``passing`` are the names that a loop binds."""

    __slots__ = ("file", "function", "passing", "values")

    def __init__(self, values: dict[str, Any], function: str, file: str, passing: frozenset[str] = NONE) -> None:
        self.values, self.function, self.file, self.passing = values, function, file, passing


def roots_of(frames: Iterable[FrameType]) -> list[Root]:
    """User frames innermost first, then the globals of the user's modules, ``__main__`` before others.

    Python takes ``__file__`` out of ``__main__`` when the script has ended; a frame of the script still names it. A
    launcher in Python (``runpy``) takes the whole module away; the frames still have its globals.
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
            function = getattr(code, "co_qualname", code.co_name)
            out.append(Root(dict(frame.f_locals), function, code.co_filename, loop_names(code)))
    modules = [sys.modules.get("__main__"), *sys.modules.values()]
    done: set[int] = set()
    for module in modules:
        values = getattr(module, "__dict__", None) if type(module) is types.ModuleType else None
        name = values.get("__file__", scopes.get(id(values), ({}, None))[1]) if values else None
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


class Census:
    """What was found: tensors, modules and optimizers by identity, each with the paths that lead to it."""

    def __init__(self, roots: list[Root], torch: Any) -> None:
        self._torch = torch
        self._plain: dict[type, str] = {}
        self._privates = Privates()
        self.tensors: dict[int, Any] = {}
        self.tensor_paths: dict[int, list[tuple[Root, Path]]] = {}
        self.modules: dict[int, tuple[Any, Root, Path]] = {}
        self.optimizers: dict[int, tuple[Any, Root, Path]] = {}
        self._search(roots)
        self._classes = frozenset(type(module).__name__ for module, _, _ in self.modules.values())
        self.parameter_names: dict[int, str] = {}
        self.parameters: dict[int, tuple[str, Any, bool]] = {}
        self._name_parameters()

    # -- searching -----------------------------------------------------------------------------------------------

    def _search(self, roots: list[Root]) -> None:
        # Each root is searched on its own, so that what a fix can say in a frame is known in that frame's own words.
        for root in roots:
            self._search_from(root)

    def _search_from(self, root: Root) -> None:
        first: list[tuple[Any, Path]] = [
            (value, (Step("name", str(name), type(value).__name__),))
            for name, value in root.values.items()
            if not (name.startswith("__") and name.endswith("__"))
        ]
        # What a loop goes through is found in its container before it is found under the loop's own name.
        queue = deque(f for f in first if f[1][0].key not in root.passing)
        passing = deque(f for f in first if f[1][0].key in root.passing)
        seen: set[int] = set()
        while (queue or passing) and len(seen) < MOST_OBJECTS:
            value, path = queue.popleft() if queue else passing.popleft()
            kind = self._kind(type(value))
            if kind == "skip":
                continue
            if kind == "tensor":
                self.tensors[id(value)] = value
                paths = self.tensor_paths.setdefault(id(value), [])
                if sum(1 for other, _ in paths if other is root) < MOST_HOLDERS:
                    paths.append((root, path))
                continue
            if id(value) in seen or len(path) > DEEPEST:
                continue
            seen.add(id(value))
            if kind in ("module", "optimizer"):
                table = self.modules if kind == "module" else self.optimizers
                known = table.get(id(value))
                if known is None or _cost(path, root) < _cost(known[2], known[1]):
                    table[id(value)] = (value, root, path)
                if kind == "optimizer":
                    continue
            for step, inner in self._inside(value, kind):
                queue.append((inner, (*path, step)))

    def _kind(self, cls: type) -> str:
        known = self._plain.get(cls)
        if known is None:
            known = self._plain[cls] = self._classify(cls)
        return known

    def _classify(self, cls: type) -> str:
        torch = self._torch
        # type.__mro__ is asked, never isinstance: that would touch lazy proxies.
        mro = cls.__mro__
        if torch.Tensor in mro:
            return "tensor"
        if torch.nn.Module in mro:
            return "module"
        if torch.optim.Optimizer in mro:
            return "optimizer"
        if dict in mro:
            return "dict"
        if list in mro or tuple in mro or deque in mro:
            return "sequence"
        if cls in (types.FunctionType, types.MethodType, functools.partial):
            return "callable"
        module = cls.__dict__.get("__module__", "")
        if not isinstance(module, str):
            return "skip"
        top = module.partition(".")[0]
        if top in ("builtins", "numpy", "types", "typing", "re", "_io", "abc", "logging", "threading", "weakref"):
            return "skip"
        if top == "torch" and not module.startswith(("torch.distributions", "torch.nn.utils", "torch.utils.data")):
            return "skip"
        if cls is types.ModuleType or issubclass(cls, type):
            return "skip"
        return "object"

    def _inside(self, value: Any, kind: str) -> Iterator[tuple[Step, Any]]:
        if kind == "dict":
            for i, (k, v) in enumerate(list(dict.items(value))):
                if i >= MOST_PER_CONTAINER:
                    break
                if type(k) in (str, int, bool, float, tuple, type(None)):
                    text = repr(k)
                    yield Step("key", text if len(text) < 80 else "…", type(v).__name__), v
        elif kind == "sequence":
            fields = getattr(type(value), "_fields", None) if tuple in type(value).__mro__ else None
            for i, v in enumerate(elements(value, MOST_PER_CONTAINER)):
                if fields and i < len(fields):
                    yield Step("field", str(fields[i]), type(v).__name__), v
                else:
                    yield Step("index", str(i), type(v).__name__), v
        elif kind == "callable":
            yield from _bound(value)
        else:
            yield from self._attributes(value, kind)

    def _attributes(self, value: Any, kind: str) -> Iterator[tuple[Step, Any]]:
        word = "field" if kind == "object" and is_frozen(type(value)) else "attribute"
        try:
            values = object.__getattribute__(value, "__dict__")
        except AttributeError:
            values = {}
        if type(values) is dict:
            for name, v in list(values.items())[:MOST_PER_CONTAINER]:
                if kind == "module" and name in ("_parameters", "_buffers", "_modules"):
                    for inner, w in list(dict.items(v)) if isinstance(v, dict) else ():
                        yield Step("attribute", inner, type(w).__name__), w
                elif not (kind == "module" and name.startswith("_") and name.endswith(("_hooks", "_pre_hooks"))):
                    yield self._privates.note(value, Step(word, str(name), type(v).__name__)), v
        for cls in type(value).__mro__:
            names = cls.__dict__.get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                try:
                    v = object.__getattribute__(value, name)
                except AttributeError:
                    continue
                yield self._privates.note(value, Step(word, str(name), type(v).__name__)), v

    # -- naming --------------------------------------------------------------------------------------------------

    def _told(self, path: Path) -> str:
        """How a report calls what stands at a path: from the user's own object on, where a library keeps that."""
        return text_of(self._privates.shortened(path, self._classes) or path)

    def _name_parameters(self) -> None:
        named = sorted(self.modules.values(), key=lambda m: (_cost(m[2], m[1]), len(m[2])))
        for module, _, path in named:
            self._take(module, self._told(path))
        known = self._plain
        for obj in gc.get_objects():
            # Modules that no frame leads to (kept by C++ or by a library): named by their class.
            cls = type(obj)
            if (known.get(cls) or self._kind(cls)) == "module" and id(obj) not in self.modules:
                self._take(obj, type(obj).__name__)
        for ident, paths in self.tensor_paths.items():
            tensor = self.tensors[ident]
            if ident not in self.parameter_names and tensor.is_leaf and tensor.requires_grad:
                name = self._told(min(paths, key=lambda found: _cost(found[1], found[0]))[1])
                self.parameter_names[ident] = name
                self.parameters[ident] = (name, tensor, False)

    def _take(self, module: Any, prefix: str) -> None:
        try:
            own = object.__getattribute__(module, "__dict__")
            for table, buffer in (("_parameters", False), ("_buffers", True)):
                held = own.get(table)
                for name, tensor in list(dict.items(held)) if isinstance(held, dict) else ():
                    if tensor is not None and id(tensor) not in self.parameter_names:
                        full = f"{prefix}.{name}"
                        self.parameter_names[id(tensor)] = full
                        self.parameters[id(tensor)] = (full, tensor, buffer)
        except Exception:
            return

    def holders(self, ident: int, exact: bool, cwd: str) -> list[Holder]:
        """The ways to reach the tensor with this id."""
        out = []
        for root, path in self.tensor_paths.get(ident, ()):
            length = next((i for i, s in enumerate(path) if s.kind not in ("name", "attribute")), len(path))
            base = path[:length]
            structure = structure_of(resolve(root, base), self._torch) if length < len(path) else "tensor"
            out.append(
                Holder(
                    text_of(path),
                    root.function,
                    shown_file(root.file, cwd),
                    list(path),
                    exact,
                    text_of(base),
                    structure,
                    self._told(path) if self._privates.crossed(path) else "",
                )
            )
        return out

    def nearest(self, ident: int) -> int:
        """How many steps the shortest way to the tensor with this id has."""
        return min((len(path) for _, path in self.tensor_paths.get(ident, ())), default=DEEPEST)

    def optimizer_name(self, ident: int) -> str:
        found = self.optimizers.get(ident)
        return text_of(found[2]) if found and not self._privates.crossed(found[2]) else ""


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
    if torch.Tensor in type(value).__mro__:
        return "tensor"
    if value is None or type(value) in (int, float, str, bool):
        return "value"
    if depth > 2:
        return None
    mro = type(value).__mro__
    if tuple in mro:
        inner = [structure_of(v, torch, depth + 1) for v in elements(value, 16)]
        if not inner or None in inner or size(value) > 16:
            return None
        return {"namedtuple" if hasattr(type(value), "_fields") else "tuple": inner}
    if type(value) in (list, deque) or dict in mro:
        kinds = [structure_of(v, torch, depth + 1) for v in elements(value, 200)]
        # What is detached by one comprehension must look the same throughout.
        if not kinds or any(k != kinds[0] for k in kinds) or kinds[0] in (None, "value"):
            return None
        name = "dict" if dict in mro else type(value).__name__
        return {name: kinds[0]}
    if is_frozen(type(value)):
        fields = {name: _field(value, name) for name in type(value).__dataclass_fields__}
        found = {name: structure_of(v, torch, depth + 1) for name, v in fields.items()}
        kept = {name: s for name, s in found.items() if s != "value"}
        return {"dataclass": kept} if kept and None not in found.values() else None
    return None


def _field(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def is_frozen(cls: type) -> bool:
    """Whether a class is a frozen dataclass, whose fields no statement can assign (``dataclasses.dataclass``)."""
    params = cls.__dict__.get("__dataclass_params__")
    return bool(getattr(params, "frozen", False))


def _cost(path: Path, root: Root) -> int:
    # A dunder or private detour is a worse name than a longer plain one.
    steps = sum(30 if s.key.startswith("_") or s.kind == "cell" else 10 for s in path)
    # The user knows his objects by the names that he gave them: `policy.fc` before `self.fc`.
    # What a loop goes through is known by its place among the others: `optimizers[1]`, not the loop's `opt`.
    return steps + (path[0].key in ("self", "cls")) + 45 * (path[0].key in root.passing)


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


def _bound(value: Any) -> Iterator[tuple[Step, Any]]:
    """What a callable has with it: its object, its given arguments, or the variables that it closes over."""
    if type(value) is types.MethodType:
        yield Step("attribute", "__self__", type(value.__self__).__name__), value.__self__
    elif type(value) is functools.partial:
        for i, v in enumerate(value.args):
            yield Step("index", str(i), type(v).__name__), v
        for k, v in value.keywords.items():
            yield Step("key", repr(k), type(v).__name__), v
    else:
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                yield Step("cell", name, type(cell.cell_contents).__name__), cell.cell_contents
            except ValueError:
                continue
