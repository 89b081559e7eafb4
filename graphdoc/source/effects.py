"""What a statement does besides computing: the calls by which it may read or change what others keep."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Set

from graphdoc.source.paths import key, last_word, targets_of

_MODULES = frozenset({"torch", "F", "nn", "functional", "math", "np", "numpy", "T"})
"""First names by which PyTorch's and numpy's functions are called: these compute and keep nothing."""
_PURE = frozenset(
    [
        "mean",
        "sum",
        "item",
        "detach",
        "flatten",
        "squeeze",
        "unsqueeze",
        "view",
        "reshape",
        "pow",
        "log",
        "exp",
        "clone",
        "abs",
        "neg",
        "sqrt",
        "mul",
        "add",
        "sub",
        "div",
        "float",
        "double",
        "long",
        "int",
        "cpu",
        "cuda",
        "to",
        "numpy",
        "tolist",
        "max",
        "min",
        "argmax",
        "argmin",
        "std",
        "var",
        "norm",
        "clamp",
        "softmax",
        "log_softmax",
        "sigmoid",
        "tanh",
        "relu",
        "size",
        "dim",
        "numel",
        "t",
        "transpose",
        "permute",
        "expand",
        "expand_as",
        "repeat",
        "gather",
        "index_select",
        "append",
        "extend",
        "keys",
        "values",
        "items",
        "format",
        "join",
        "data",
        "square",
        "type",
        "contiguous",
    ]
)
"""Methods of tensors, lists and dicts that read no parameter but their own tensor's value."""


DRAWS = frozenset(
    [
        "sample",
        "sample_n",
        "rsample",
        "multinomial",
        "bernoulli",
        "poisson",
        "normal",
        "randn",
        "rand",
        "randint",
        "randperm",
        "randn_like",
        "rand_like",
        "randint_like",
        "gumbel_softmax",
        "choice",
        "choices",
        "permutation",
        "shuffle",
        "uniform",
        "random",
    ]
)
"""Functions and methods that draw random numbers."""
READS_GRADIENTS = frozenset({"clip_grad_norm_", "clip_grad_value_", "unscale_", "grad", "clip_grad_norm"})
"""Attributes and functions by which a program reads or scales gradients."""
TAKES = frozenset(["next", "pop", "popleft", "popitem", "readline", "read", "recv", "get_nowait", "next_batch"])
"""Functions and methods that take something out of what they are called on: the next call gets another one."""


def another_each_time(node: ast.AST) -> str:
    """The name of a call in it that gives another value each time: it draws, or takes the next one; empty for none."""
    names = (last_word(call.func) for call in calls_of(node))
    return next((n for n in names if n in DRAWS or n in TAKES), "")


def calls_of(node: ast.AST) -> list[ast.Call]:
    """Every call in a statement, outermost first."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def functions_named(trees: Iterable[ast.AST], names: Set[str]) -> list[ast.FunctionDef]:
    """Every function of a program by one of these names, whatever it belongs to."""
    nodes = (n for tree in trees for n in ast.walk(tree))
    return [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name in names]


def method_of(node: ast.stmt) -> tuple[str, ast.expr | None]:
    """The method that a bare call statement calls, and on what; an empty name for any other statement."""
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr, value.func.value
    return "", None


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
    return [call for call in calls_of(node) if not _harmless(call, keepers, known, objects)]


def built_objects(tree: ast.AST) -> frozenset[str]:
    """The names to which a program binds nothing but what a class with a capital letter builds."""
    built: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        func = value.func if isinstance(value, ast.Call) else None
        last = last_word(func)
        for target in targets_of(node):
            if isinstance(target, ast.Name):
                (built if last[:1].isupper() else other).add(target.id)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            other.add(node.name)
    return frozenset(built - other)


def _harmless(call: ast.Call, keepers: Set[str], known: Set[str], objects: Set[str]) -> bool:
    func = call.func
    given = {key(a).split(".")[0] for a in (*call.args, *(k.value for k in call.keywords))}
    if isinstance(func, ast.Name):
        if func.id in objects and func.id not in keepers:
            return not given & {*keepers, "self", "cls"}
        return hasattr(builtins, func.id) and func.id not in ("exec", "eval", "setattr", "delattr", "next")
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr in known or func.attr in _PURE:
        return True
    first = key(func.value).split(".")[0].split("[")[0]
    if first in _MODULES:
        return True
    if not isinstance(func.value, ast.Name | ast.Attribute) or first in ("self", "cls") or first in keepers:
        return False
    return not given & {*keepers, "self", "cls"}


def binds_any(statements: Iterable[ast.stmt], names: Set[str]) -> str:
    """The first of these names or paths that one of the statements binds anew or writes into; empty for none."""
    for statement in statements:
        for node in (statement, *ast.walk(statement)):
            for target in targets_of(node):
                if key(target).split("[")[0] in names:
                    return key(target)
    return ""
