"""Whether statements, with the functions of the program that they call, may touch what certain names stand for."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Set
from dataclasses import dataclass, field

from graphdoc.source.effects import READS_GRADIENTS, calls_of
from graphdoc.source.flag_switches import only_switches
from graphdoc.source.paths import last_word, targets_of

_UPDATES = ("step", "zero_grad")
_LIBRARIES = ("torch", "numpy", "math", "random", "time", "os", "typing", "collections", "itertools", "functools")
_DEPTH = 6


@dataclass
class Touching:
    """What is known of a program: ``trees`` of its files, ``parts`` of the names that must not be touched, and the last
    names of its ``optimizers``.

    Nothing is taken to be harmless that cannot be looked at: a method of the object itself or a function that no file
    at hand defines, and any call that is given the whole object.
    """

    trees: list[ast.Module]
    parts: Set[str]
    optimizers: Set[str]
    _functions: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)
    _bound: set[str] = field(default_factory=set)
    _imported: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in (n for tree in self.trees for n in ast.walk(tree)):
            if isinstance(node, ast.FunctionDef):
                self._functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                of = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    if (of or alias.name).split(".")[0] in _LIBRARIES:
                        self._imported.add(alias.asname or alias.name.split(".")[0])
            else:
                self._bound |= {last_word(t) for t in targets_of(node)} - {""}

    def first(self, top: ast.AST, spared: ast.AST | None = None, within: Set[str] = frozenset()) -> ast.AST | None:
        """The first expression that may touch them; None where none does. ``spared`` is a call that is looked at for
        itself, ``within`` are functions that are being looked at."""
        todo: list[ast.AST] = [top]
        while todo:
            node = todo.pop()
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and only_switches(self.trees, node.value)
            ):
                continue
            word = last_word(node)
            if word in self.parts or (isinstance(node, ast.Attribute) and word in READS_GRADIENTS):
                return node
            if isinstance(node, ast.Call) and node is not spared and not self._known(node, within):
                return node
            todo += list(ast.iter_child_nodes(node))[::-1]
        return None

    def _known(self, call: ast.Call, within: Set[str]) -> bool:
        """Whether a call can be seen not to touch them, but for what stands in its own arguments."""
        func, name = call.func, last_word(call.func)
        given = [*call.args, *(k.value for k in call.keywords)]
        if any(isinstance(a, ast.Name) and a.id in ("self", "cls") for a in given):
            return False
        if isinstance(func, ast.Attribute):
            owner = func.value
            if name in _UPDATES:
                return self._leaves_alone(name, owner)
            if name == "backward" or self._is_library(owner):
                return True
            if isinstance(owner, ast.Call) and last_word(owner.func) == "super":
                return False
        elif name in self._imported or hasattr(builtins, name):
            return name not in ("exec", "eval", "setattr", "delattr", "getattr", "vars", "globals", "locals")
        if name in within:
            return True
        found = self._functions.get(name, [])
        if found:
            deeper = within | {name}
            return len(within) < _DEPTH and all(self.first(s, None, deeper) is None for f in found for s in f.body)
        on = func.value if isinstance(func, ast.Attribute) else None
        own = on is None or (isinstance(on, ast.Name) and on.id in ("self", "cls"))
        return not own or name in self._bound

    def update(self, top: ast.AST) -> ast.Call | None:
        """The first ``step`` that may be no optimizer's, or ``zero_grad`` that may clear them; None where there is
        none. A scheduler's step is another one before that of its optimizer."""
        methods = ((c, c.func) for c in calls_of(top) if isinstance(c.func, ast.Attribute))
        updates = ((c, f) for c, f in methods if f.attr in _UPDATES)
        return next((c for c, f in updates if not self._leaves_alone(f.attr, f.value)), None)

    def _leaves_alone(self, name: str, owner: ast.expr) -> bool:
        """Whether a ``step`` is that of an optimizer and of no scheduler, and a ``zero_grad`` one of others."""
        word = last_word(owner)
        if name == "zero_grad":
            return word not in ("", "self", "cls", *self.parts)
        return word in self.optimizers or "opt" in word.lower()

    def _is_library(self, owner: ast.expr) -> bool:
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        return isinstance(owner, ast.Name) and owner.id in self._imported
