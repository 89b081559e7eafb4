"""How a package lets go of a value that an object of its keeps: which method, called without arguments, clears it."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple

from graphdoc.capture.places.code_places import installed_below, is_user_file, lines_of, shown_file
from graphdoc.capture.tensors.access_paths import Path, resolve, text_of
from graphdoc.capture.tensors.facts import is_training
from graphdoc.capture.tensors.names import Census
from graphdoc.evidence import Tensor

MOST_OWNERS = 12
MOST_CALLS = 4
"""Calls that are followed from a method down to the statement that clears."""
_OWN = ("_parameters", "_buffers", "_modules")


class _Owner(NamedTuple):
    """An object that keeps the value on an attribute: the way to it, and as ``held`` the program's own way to what is
    kept, where that is another one."""

    value: Any
    path: Path
    attribute: str
    root: Any
    held: str = ""


def clearing(census: Census, kept: list[Tensor], cwd: str) -> dict[str, Any]:
    """What to call, as Python, what that clears, and the place of the statement that does; empty where no method is
    known to do it."""
    for owner in _owners(census, kept):
        for name in ("train", *sorted(n for n in dir(type(owner.value)) if not n.startswith("_") and n != "train")):
            function = _method(type(owner.value), name)
            if function is None or not _takes_nothing(function):
                continue
            path: Path | None = owner.path
            if name == "train":
                path = _in_training(owner, census)
            place = _Search(owner, name == "train").place(function, type(owner.value)) if path is not None else None
            if place is not None and path is not None:
                code, line = place
                file = shown_file(code.co_filename, cwd)
                cleared = f"{text_of(owner.path)}.{owner.attribute}"
                call = f"{text_of(path)}.{name}()"
                return {"call": call, "kept": cleared, "held": owner.held, "file": file, "line": line}
    return {}


def _owners(census: Census, kept: list[Tensor]) -> Iterator[_Owner]:
    """The objects that keep one of these, or what it is reached through, the outermost first."""
    told = {(h.path, h.function) for t in kept for h in t.holders if h.exact}
    ways = [
        (root, path)
        for paths in census.tensor_paths.values()
        for root, path in paths
        if (text_of(path), root.function) in told
    ]
    found: list[tuple[int, _Owner]] = []
    reached: dict[int, tuple[int, str]] = {}
    for root, path in ways[:MOST_OWNERS]:
        for i, step in enumerate(path):
            if step.kind not in ("name", "attribute"):
                break
            value = resolve(root, path[: i + 1])
            if id(value) not in census.modules and not _is_users(type(value)):
                reached.setdefault(id(value), (i, text_of(path[: i + 1])))
            if i and step.kind == "attribute":
                found.append((i, _Owner(resolve(root, path[:i]), path[:i], step.key, root)))
    for module, root, path in census.modules.values() if reached else ():
        for name, value in list(object.__getattribute__(module, "__dict__").items()):
            met = [reached[i] for i in _within(value) if i in reached] if name not in _OWN else []
            if met:
                at, held = min(met)
                found.append((at, _Owner(module, path, name, root, held)))
    found.sort(key=lambda f: (f[0], len(f[1].path)))
    return (owner for _, owner in found[:MOST_OWNERS])


def _is_users(cls: type) -> bool:
    """Whether a class is the program's own: what it makes does not become another one when a package lets go of it."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return not isinstance(file, str) or is_user_file(file)


def _within(value: Any, depth: int = 2) -> Iterator[int]:
    yield id(value)
    if depth and type(value) in (dict, list, tuple):
        for inner in list(value.values() if type(value) is dict else value)[:100]:
            yield from _within(inner, depth - 1)


def _in_training(owner: _Owner, census: Census) -> Path | None:
    """The way to the outermost module that hands ``train()`` on to this one; None where that would switch a mode."""
    for i in range(1, len(owner.path) + 1):
        values = [resolve(owner.root, owner.path[:n]) for n in range(i, len(owner.path) + 1)]
        if all(id(v) in census.modules and is_training(v) for v in values):
            trains = [_method(type(v), "train") for v in values]
            if all(t is not None and not is_user_file(t.__code__.co_filename) for t in trains):
                return owner.path[:i]
    return None


def _method(cls: type, name: str, behind: type | None = None) -> FunctionType | None:
    """The function that a class, or the next one ``behind`` one of its bases, has under a name."""
    order = cls.__mro__
    start = order.index(behind) + 1 if behind in order else 0
    found = next((c.__dict__[name] for c in order[start:] if name in c.__dict__), None)
    return found if type(found) is FunctionType else None


def _takes_nothing(function: FunctionType) -> bool:
    code = function.__code__
    needed = code.co_argcount - len(function.__defaults__ or ())
    return needed == 1 and code.co_kwonlyargcount == len(function.__kwdefaults__ or {})


class _Search:
    """Looks through the statements of methods that run when one of them is called without arguments.

    One that does anything but clear is none to call for that (``alone``); ``train()`` does no more in a module that is
    in training.
    """

    def __init__(self, owner: _Owner, may_do_more: bool) -> None:
        self._owner = owner
        self._lenient = may_do_more
        self._depth = 0

    def place(self, function: FunctionType, cls: type) -> tuple[CodeType, int] | None:
        """The statement by which calling this clears the attribute; None where it is not known to, or does more."""
        code = function.__code__
        path = installed_below(code.co_filename)
        if path is None or path[1].startswith(("torch/", "torchgen/")) or self._depth > MOST_CALLS:
            return None
        try:
            lines = inspect.getblock(lines_of(code.co_filename)[code.co_firstlineno - 1 :])
            definition = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except (OSError, SyntaxError, ValueError, IndexError):
            return None
        if not isinstance(definition, ast.FunctionDef) or definition.decorator_list or not definition.args.args:
            return None
        names = [a.arg for a in definition.args.args]
        defaults = zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False)
        given = {name: value for name, value in defaults if type(value) in (bool, int, str, type(None))}
        given[names[0]] = SimpleNamespace(training=True, **{self._owner.attribute: [True]})
        self._depth += 1
        found = self._body(definition.body, function, names[0], given, cls)
        self._depth -= 1
        return found

    def _body(
        self, body: list[ast.stmt], function: FunctionType, me: str, given: dict[str, Any], cls: type
    ) -> tuple[CodeType, int] | None:
        found: tuple[CodeType, int] | None = None
        for s in body:
            inner = None
            if isinstance(s, ast.If) and (truth := _truth(s.test, given)) is not None:
                inner = self._body(s.body if truth else s.orelse, function, me, given, cls)
            elif self._is_clear(s, me):
                inner = function.__code__, function.__code__.co_firstlineno + s.lineno - 1
            else:
                called = self._called(s, function, me, cls)
                inner = self.place(called, cls) if called is not None else None
                if inner is None and not self._lenient and not _does_nothing(s, me):
                    return None
            found = found or inner
        return found

    def _called(self, statement: ast.stmt, function: FunctionType, me: str, cls: type) -> FunctionType | None:
        """The method of the object, or the function that is given it, which a statement calls."""
        call = getattr(statement, "value", None)
        if not isinstance(call, ast.Call):
            return None
        target = call.func
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == me and not call.args:
            return _method(cls, target.attr)
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "super()":
            owner = next((c for c in cls.__mro__ if function in c.__dict__.values()), None)
            return _method(cls, target.attr, owner) if owner is not None else None
        if isinstance(target, ast.Name) and [ast.unparse(a) for a in call.args] == [me]:
            other = function.__globals__.get(target.id)
            return other if type(other) is FunctionType else None
        return None

    def _is_clear(self, statement: ast.stmt, me: str) -> bool:
        mine = f"{me}.{self._owner.attribute}"
        if not isinstance(statement, ast.Assign):
            return ast.unparse(statement) in (f"del {mine}", f"{mine}.clear()")
        targets, values = _flat(statement.targets), _flat([statement.value] * len(statement.targets))
        return len(targets) == len(values) and all(map(_is_empty, values)) and mine in map(ast.unparse, targets)


def _truth(test: ast.expr, given: dict[str, Any]) -> bool | None:
    """Whether a condition holds, where the arguments are the defaults and the value is kept; None if not known.
    Asked of something that stands for the object: nothing of the program's runs."""
    try:
        return bool(eval(ast.unparse(test), {"__builtins__": {"hasattr": hasattr}}, given))
    except Exception:
        return None


def _flat(nodes: list[ast.expr]) -> list[ast.expr]:
    return [inner for n in nodes for inner in (_flat(n.elts) if isinstance(n, ast.Tuple) and n.elts else [n])]


def _is_empty(value: ast.expr) -> bool:
    return ast.unparse(value) in ("None", "{}", "[]", "()", "dict()", "list()", "set()", "OrderedDict()")


def _does_nothing(statement: ast.stmt, me: str) -> bool:
    """A docstring, ``pass``, ``return self``, another attribute that is emptied."""
    if isinstance(statement, ast.Assign):
        return all(map(_is_empty, _flat([statement.value])))
    text = ("pass", "return", "return None", f"return {me}")
    return ast.unparse(statement) in text or isinstance(getattr(statement, "value", None), ast.Constant)
