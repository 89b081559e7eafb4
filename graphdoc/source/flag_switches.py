"""Whether a call of the program's own only switches flags: it neither reads nor writes values, gradients or state."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from graphdoc.source.effects import functions_named
from graphdoc.source.paths import last_word

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
    for node in ast.walk(function):
        if node is function:
            continue
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            return False
        if isinstance(node, ast.Assign) and not all(_is_flag_or_local(t) for t in node.targets):
            return False
        if isinstance(node, ast.Call) and not only_switches(trees, node, within):
            return False
    return not function.decorator_list


def _is_flag_or_local(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (isinstance(target, ast.Attribute) and target.attr in _FLAGS)
