"""What a statement does besides computing: what it may read, change or switch that others keep, and what it draws."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from graphdoc.source.module import Function, each, given_to, is_method_call, walked
from graphdoc.source.paths import bare_call, called, is_attribute, key, last_word, pairs, targets_of, words

_MODULES = frozenset({"torch", "F", "nn", "functional", "math", "np", "numpy", "T"})
"""First names by which PyTorch's and numpy's functions are called: these compute and keep nothing."""
_PURE = words(
    """
    mean sum item detach flatten squeeze unsqueeze view reshape pow log exp clone abs neg sqrt mul add sub div float
    double long int cpu cuda to numpy tolist max min argmax argmin std var norm clamp softmax log_softmax sigmoid tanh
    relu size dim numel t transpose permute expand expand_as repeat gather index_select append extend keys values items
    format join data square type contiguous
    """
)
"""Methods of tensors, lists and dicts that read no parameter but their own tensor's value."""


DRAWS = words(
    """
    sample sample_n rsample multinomial bernoulli poisson normal randn rand randint randperm randn_like rand_like
    randint_like gumbel_softmax choice choices permutation shuffle uniform random
    """
)
"""Functions and methods that draw random numbers."""
READS_GRADIENTS = frozenset({"clip_grad_norm_", "clip_grad_value_", "unscale_", "grad", "clip_grad_norm"})
"""Attributes and functions by which a program reads or scales gradients."""
TAKES = frozenset(["next", "pop", "popleft", "popitem", "readline", "read", "recv", "get_nowait", "next_batch"])
"""Functions and methods that take something out of what they are called on: the next call gets another one."""


def another_each_time(node: ast.AST) -> str:
    """The name of a call in it that gives another value each time: it draws, or takes the next one; empty for none."""
    return next((called(n) for n in each(node, ast.Call) if called(n) in DRAWS | TAKES), "")


def functions_named(trees: Iterable[ast.AST], names: Set[str]) -> list[ast.FunctionDef]:
    """Every function of a program by one of these names, whatever it belongs to."""
    nodes = (n for tree in trees for n in walked(tree))
    return [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name in names]


def method_of(node: ast.AST) -> tuple[str, ast.expr | None]:
    """The method that a bare call statement calls, and on what; an empty name for any other statement."""
    value = bare_call(node)
    return (value.func.attr, value.func.value) if is_method_call(value) else ("", None)


def calls_method(node: ast.AST, *names: str) -> bool:
    """Whether a method of one of these names is called in a piece of code."""
    return any(is_method_call(n, *names) for n in each(node, ast.Call))


def is_bare_call(node: ast.stmt) -> bool:
    """Whether a statement only calls something: what it is there for is what the call does."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)


def opaque_calls(
    node: ast.AST, keepers: Set[str], known: Set[str] = frozenset(), objects: Set[str] = frozenset()
) -> list[ast.Call]:
    """The calls of a statement that may read or change an object reached from one of ``keepers`` (first names).

    ``known`` are methods that are judged elsewhere. A function of the program's own may do anything. A method, and one
    of ``objects`` (names of what the program has built) that is called, may do anything to what it is called on and to
    what it is given.
    """
    return [call for call in each(node, ast.Call) if not _harmless(call, keepers, known, objects)]


def built_objects(tree: ast.AST) -> frozenset[str]:
    """The names to which a program binds nothing but what a class with a capital letter builds."""
    built: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        made = called(getattr(node, "value", None))[:1].isupper()
        (built if made else other).update(t.id for t in targets_of(node) if isinstance(t, ast.Name))
        if isinstance(node, Function | ast.ClassDef):
            other.add(node.name)
    return frozenset(built - other)


def _harmless(call: ast.Call, keepers: Set[str], known: Set[str], objects: Set[str]) -> bool:
    func = call.func
    kept = {*keepers, "self", "cls"}
    given = {key(a).split(".")[0] for a in given_to(call)}
    if isinstance(func, ast.Name):
        if func.id in objects and func.id not in keepers:
            return not given & kept
        return hasattr(builtins, func.id) and func.id not in ("exec", "eval", "setattr", "delattr", "next")
    if not isinstance(func, ast.Attribute):
        return False
    first = key(func.value).split(".")[0].split("[")[0]
    if func.attr in known or func.attr in _PURE or first in _MODULES:
        return True
    return isinstance(func.value, ast.Name | ast.Attribute) and not {first, *given} & kept


# Whether a call of the program's own only switches flags: it neither reads nor writes values, gradients or state.

_FLAGS = frozenset({"requires_grad", "training"})
_WALKS = frozenset({"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"})
_SWITCHES = frozenset({"requires_grad_", "train", "eval"})
_PLAIN = frozenset({"isinstance", "list", "tuple", "range", "len", "enumerate", "zip", "print", "iter", "hasattr"})
_STATEMENTS = (ast.For, ast.If, ast.Expr, ast.Assign, ast.Pass, ast.Return)
_DEPTH = 3


def only_switches(trees: Iterable[ast.AST], call: ast.Call, within: frozenset[str] = frozenset()) -> bool:
    """Whether everything that a program defines by the name of a call does nothing else than switch ``requires_grad``
    and train or eval mode; False where no definition is known. ``within`` are functions that are being looked at."""
    name = last_word(call.func)
    if name in _SWITCHES | _WALKS | within or (isinstance(call.func, ast.Name) and name in _PLAIN):
        return True
    known = list(trees)
    found = functions_named(known, {name})
    return len(within) < _DEPTH and bool(found) and all(_switches(known, f, within | {name}) for f in found)


def _switches(trees: list[ast.AST], function: ast.FunctionDef, within: frozenset[str]) -> bool:
    targets = (t for n in each(function, ast.Assign) for t in n.targets)
    sets = all(isinstance(t, ast.Name) or is_attribute(t, *_FLAGS) for t in targets)
    plain = all(n is function or isinstance(n, _STATEMENTS) for n in each(function, ast.stmt))
    calls = sets and plain and all(only_switches(trees, n, within) for n in each(function, ast.Call))
    return calls and not function.decorator_list


# Whether statements, with the functions of the program that they call, may touch what certain names stand for.

_UPDATES = ("step", "zero_grad")
_LIBRARIES = ("torch", "numpy", "math", "random", "time", "os", "typing", "collections", "itertools", "functools")
_CALLS = 6


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
        for node in (n for tree in self.trees for n in walked(tree)):
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
            statement = bare_call(node)
            if statement is not None and only_switches(self.trees, statement):
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
        if any(_is_object(a) for a in given_to(call)):
            return False
        known = self._known_method(func) if isinstance(func, ast.Attribute) else self._known_function(name)
        if known is not None or name in within:
            return known is not False
        found = self._functions.get(name, [])
        if found:
            deeper = within | {name}
            return len(within) < _CALLS and all(self.first(s, None, deeper) is None for f in found for s in f.body)
        own = not isinstance(func, ast.Attribute) or _is_object(func.value)
        return not own or name in self._bound

    def _known_method(self, func: ast.Attribute) -> bool | None:
        """What the name of a method and its owner tell; None for nothing."""
        if func.attr in _UPDATES:
            return self._leaves_alone(func.attr, func.value)
        if func.attr == "backward" or key(func.value).split(".")[0] in self._imported:
            return True
        return False if isinstance(func.value, ast.Call) and last_word(func.value.func) == "super" else None

    def _known_function(self, name: str) -> bool | None:
        if name in self._imported or hasattr(builtins, name):
            return name not in ("exec", "eval", "setattr", "delattr", "getattr", "vars", "globals", "locals")
        return None

    def update(self, top: ast.AST) -> ast.Call | None:
        """The first ``step`` that may be no optimizer's, or ``zero_grad`` that may clear them; None where there is
        none. A scheduler's step is another one before that of its optimizer."""
        methods = ((c, c.func) for c in each(top, ast.Call) if is_method_call(c))
        updates = ((c, f) for c, f in methods if f.attr in _UPDATES)
        return next((c for c, f in updates if not self._leaves_alone(f.attr, f.value)), None)

    def _leaves_alone(self, name: str, owner: ast.expr) -> bool:
        """Whether a ``step`` is that of an optimizer and of no scheduler, and a ``zero_grad`` one of others."""
        word = last_word(owner)
        if name == "zero_grad":
            return word not in ("", "self", "cls", *self.parts)
        return word in self.optimizers or "opt" in word.lower()


def _is_object(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


# Whether a piece of code draws random numbers, as far as what it calls is written in the program's own files.


def may_draw(trees: Iterable[ast.Module], node: ast.AST) -> bool:
    """Whether a call in it may draw: by its own name, by that of a layer that it is bound to (``nn.Dropout``), or in
    what its name is defined as.

    Names are followed by their last word, so that another definition of the same name counts too: good enough to
    choose between two ways, not to tell a reader.
    """
    definitions = _definitions(trees)
    todo: list[tuple[ast.AST, bool]] = [(node, True)]
    met: set[str] = set()
    for piece, runs in todo:
        names = {called(call) for call in each(piece, ast.Call)}
        if any("dropout" in name.lower() or (runs and name in DRAWS) for name in names):
            return True
        todo += [found for name in names - met for found in definitions.get(name, [])]
        met |= names
    return False


def _definitions(trees: Iterable[ast.Module]) -> dict[str, list[tuple[ast.AST, bool]]]:
    """What each name stands for, and whether a call of the name runs it. What makes an object has run before: its
    first weights are drawn once."""
    found: dict[str, list[tuple[ast.AST, bool]]] = {}
    for node in (n for tree in trees for n in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append((node, node.name != "__init__"))
        elif isinstance(node, ast.ClassDef):
            members = [(s, getattr(s, "name", "") not in ("__init__", "")) for s in node.body]
            found.setdefault(node.name, []).extend(members)
        for target, value in pairs(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
            found.setdefault(last_word(target), []).append((value, isinstance(value, ast.Lambda)))
    return found
