"""Names: how the user's program reaches a module, a parameter, an optimizer or a tensor, searched from live frames."""

from __future__ import annotations

import functools
import gc
import re
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from graphdoc.capture.places.code_places import is_user_file, shown_file
from graphdoc.capture.tensors.access_paths import Path, Root, elements, is_frozen, resolve, structure_of, text_of
from graphdoc.capture.tensors.facts import is_leaf
from graphdoc.evidence import Holder, Step


class Privates:
    """Remembers which steps of a search went through a private attribute of a library's object."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._of_modules: set[int] = set()
        self._is_librarys: Callable[[Any], bool] = functools.cache(_is_librarys)

    def note(self, owner: Any, step: Step, module: bool = False) -> Step:
        """Look at a step that was made from ``owner``. A step that counts is kept, so that its id stays its own."""
        if step.key.startswith("_") and self._is_librarys(type(owner)):
            self._steps[id(step)] = step
            if module:
                self._of_modules.add(id(step))
        return step

    def crossed(self, path: Path) -> bool:
        """Whether the way leads through one."""
        return any(id(step) in self._steps for step in path)

    def shortened(self, path: Path, classes: frozenset[str]) -> Path | None:
        """The way from the first object of one of these classes behind the last private step, named by its class.

        None where the way crosses nothing private, or leads to no such object.
        """
        last = next((i for i in range(len(path) - 1, -1, -1) if id(path[i]) in self._steps), -1)
        if last < 0:
            return None
        at = next((i for i in range(last, len(path)) if path[i].type in classes), -1)
        return (Step("name", path[at].type, path[at].type), *path[at + 1 :]) if at >= 0 else None

    def owner(self, path: Path) -> Path | None:
        """The way to the object that keeps a value to itself, where that is the one private step; None elsewhere.

        What a distribution computes from its arguments is to its user the distribution. What a module keeps of its
        passes is not the module: that was not computed.
        """
        private = [i for i, step in enumerate(path) if id(step) in self._steps]
        if private != [len(path) - 1] or len(path) < 2 or id(path[-1]) in self._of_modules:
            return None
        return path[:-1]


def _is_librarys(cls: type) -> bool:
    module = sys.modules.get(str(cls.__dict__.get("__module__", "")))
    file = getattr(module, "__dict__", {}).get("__file__")
    return isinstance(file, str) and not is_user_file(file)


# Names: how the user's program reaches a module, a parameter, an optimizer or a tensor, searched from live frames.

MOST_OBJECTS = 50_000
MOST_PER_CONTAINER = 2_000
DEEPEST = 9
MOST_HOLDERS = 6
_ADDRESS = re.compile(r"\d{12,}")
"""An `id()` in a key, which is another in each run and tells nobody anything."""


class Census:
    """What was found: tensors, modules and optimizers by identity, each with the paths that lead to it."""

    def __init__(self, roots: list[Root], torch: Any) -> None:
        self._torch = torch
        self._kind: Callable[[Any], str] = functools.cache(functools.partial(_classify, torch))
        self._privates = Privates()
        self.tensors: dict[int, Any] = {}
        self.tensor_paths: dict[int, list[tuple[Root, Path]]] = {}
        self.modules: dict[int, tuple[Any, Root, Path]] = {}
        self.optimizers: dict[int, tuple[Any, Root, Path]] = {}
        self._search(roots)
        self._search([Root({type(m).__name__: m}, "", "") for m in self._unreached()])
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
                if known is None or _cost_of(path, root) < _cost_of(known[2], known[1]):
                    table[id(value)] = (value, root, path)
                if kind == "optimizer":
                    continue
            for step, inner in self._inside(value, kind):
                queue.append((inner, (*path, step)))

    def _unreached(self) -> list[Any]:
        """Modules that no frame leads to (kept by C++ or by a library alone): the outermost of them, which go by the
        names of their classes."""
        objects = gc.get_objects()
        classes = {cls for cls in set(map(type, objects)) if self._kind(cls) == "module"}
        found = [obj for obj in objects if type(obj) in classes and id(obj) not in self.modules] if classes else []
        within = {id(inner) for module in found for inner in child_modules(module)}
        return [module for module in found if id(module) not in within]

    def _inside(self, value: Any, kind: str) -> Iterator[tuple[Step, Any]]:
        if kind == "dict":
            for i, (k, v) in enumerate(list(dict.items(value))):
                if i >= MOST_PER_CONTAINER:
                    break
                if type(k) in (str, int, bool, float, tuple, type(None)):
                    text = _ADDRESS.sub("…", repr(k))
                    most = 40 if type(k) is tuple else 80  # a memo's key, made of a call's arguments, is no name
                    yield Step("key", text if len(text) < most else "…", type(v).__name__), v
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
                    yield self._privates.note(value, Step(word, str(name), type(v).__name__), kind == "module"), v
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

    def _told_of(self, path: Path) -> str:
        """The same for a tensor, where it is not its path; empty where it is."""
        if not self._privates.crossed(path):
            return ""
        owner = self._privates.owner(path)
        return text_of(owner) if owner is not None else self._told(path)

    def _name_parameters(self) -> None:
        named = sorted(self.modules.values(), key=lambda m: (_cost_of(m[2], m[1]), len(m[2])))
        for module, _, path in named:
            self._take(module, self._told(path))
        for ident, paths in self.tensor_paths.items():
            tensor = self.tensors[ident]
            kept = is_leaf(tensor) and (tensor.requires_grad or type(tensor) is self._torch.nn.Parameter)
            if ident not in self.parameter_names and kept:
                name = self._told(min(paths, key=lambda found: _cost_of(found[1], found[0]))[1])
                self.parameter_names[ident] = name
                self.parameters[ident] = (name, tensor, False)

    def _take(self, module: Any, prefix: str) -> None:
        for name, tensor, buffer in _own_tensors(module):
            if id(tensor) not in self.parameter_names:
                full = f"{prefix}.{name}"
                self.parameter_names[id(tensor)] = full
                self.parameters[id(tensor)] = (full, tensor, buffer)

    @functools.cached_property
    def several_names(self) -> frozenset[int]:
        """The parameters and buffers that have two names by modules: one module stands in two places of the tree."""
        held = Counter(id(child) for module, _, _ in self.modules.values() for child in child_modules(module))
        twice = [module for ident, (module, _, _) in self.modules.items() if held[ident] > 1]
        found: set[int] = set()
        seen: set[int] = set()
        while twice:
            module = twice.pop()
            if id(module) not in seen:
                seen.add(id(module))
                found.update(id(tensor) for _, tensor, _ in _own_tensors(module))
                twice += child_modules(module)
        return frozenset(found)

    def holders(self, ident: int, exact: bool, cwd: str, passing: bool = True) -> list[Holder]:
        """The ways to reach the tensor with this id; without ``passing`` none that is a loop's own variable."""
        out = []
        for root, path in self.tensor_paths.get(ident, ()):
            if not passing and len(path) == 1 and path[0].key in root.passing:
                continue
            length = next((i for i, s in enumerate(path) if s.kind not in ("name", "attribute")), len(path))
            base = path[:length]
            held = Holder(text_of(path), root.function, shown_file(root.file, cwd), list(path), exact, text_of(base))
            held.structure = structure_of(resolve(root, base), self._torch) if length < len(path) else "tensor"
            held.name = self._told_of(path)
            out.append(held)
        return out

    def nearest(self, ident: int) -> int:
        """How many steps the shortest way to the tensor with this id has."""
        return min((len(path) for _, path in self.tensor_paths.get(ident, ())), default=DEEPEST)

    def optimizer_name(self, ident: int) -> str:
        found = self.optimizers.get(ident)
        return text_of(found[2]) if found and not self._privates.crossed(found[2]) else ""


def _cost_of(path: Path, root: Root) -> int:
    # A dunder or private detour is a worse name than a longer plain one.
    steps = sum(30 if s.key.startswith("_") or s.kind == "cell" else 10 for s in path)
    # The user knows his objects by the names that he gave them: `policy.fc` before `self.fc`.
    # What a loop goes through is known by its place among the others: `optimizers[1]`, not the loop's `opt`.
    # A class is the name only of what no name leads to.
    unnamed = 1_000 * (not root.file)
    return steps + (path[0].key in ("self", "cls")) + 45 * (path[0].key in root.passing) + unnamed


def _classify(torch: Any, cls: type) -> str:
    # type.__mro__ is asked, never isinstance: that would touch lazy proxies.
    kinds = {
        torch.Tensor: "tensor",
        torch.nn.Module: "module",
        torch.optim.Optimizer: "optimizer",
        dict: "dict",
        **dict.fromkeys((list, tuple, deque), "sequence"),
    }
    known = next((kind for base, kind in kinds.items() if base in cls.__mro__), "")
    if known or cls in (types.FunctionType, types.MethodType, functools.partial):
        return known or "callable"
    module = cls.__dict__.get("__module__", "")
    top = module.partition(".")[0] if isinstance(module, str) else "builtins"
    plain = top in ("builtins", "numpy", "types", "typing", "re", "_io", "abc", "logging", "threading", "weakref")
    kept = top != "torch" or module.startswith(("torch.distributions", "torch.nn.utils", "torch.utils.data"))
    return "object" if kept and not plain and cls is not types.ModuleType and not issubclass(cls, type) else "skip"


def _own_tensors(module: Any) -> list[tuple[str, Any, bool]]:
    """The parameters and buffers of a module itself by name, and whether each is a buffer."""
    try:
        own = object.__getattribute__(module, "__dict__")
        return [
            (name, tensor, buffer)
            for table, buffer in (("_parameters", False), ("_buffers", True))
            if isinstance(held := own.get(table), dict)
            for name, tensor in list(dict.items(held))
            if tensor is not None
        ]
    except Exception:
        return []


def child_modules(module: Any) -> list[Any]:
    """The modules that a module holds; none of one whose ``__init__`` has not come so far."""
    try:
        held = object.__getattribute__(module, "__dict__").get("_modules")
    except AttributeError:
        return []
    return list(dict.values(held)) if isinstance(held, dict) else []


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
