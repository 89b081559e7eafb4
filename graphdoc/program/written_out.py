"""An expression as if it stood in one piece: with what temporary names and the program's own short functions mean."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.module import Function, Loop, each
from graphdoc.source.paths import called, covers, is_name, is_path, is_read, only, pairs, plain_names, targets_of
from graphdoc.source.scopes import given_by, own_nodes, parameters

_One = TypeVar("_One", bound=ast.AST)
_MOST = 12
"""Names and functions, one within the other, that are written out."""
_NEAR = 4
"""The same where a whole file is."""


def written_out(sources: SourceTexts, at: Frame | None, node: ast.expr, *, values: bool = True) -> ast.expr:
    """The expression ``node`` of the function around a place, written in one piece.

    A name is replaced where it only stands for another name (``n = self.net``), and by its value where it is read here
    alone (not without ``values``); a call of a function of the program that consists of ``return …`` by what it
    returns: ``detach(x)`` becomes ``x.detach()``.
    """
    if at is None:
        return node
    within = _Written(bindings.tree(sources, at.file), bindings.scope_at(sources, at), values, _MOST)
    made: ast.expr = within.visit(copy.deepcopy(node))
    return made


def in_line(root: ast.Module, call: ast.Call) -> ast.expr:
    """What a call of a one-line function of the program does, ``x.append(y)`` for ``put(x, y)``; others as they are."""
    functions = (n for n in root.body if isinstance(n, ast.FunctionDef))
    function = next((n for n in functions if is_name(call.func, n.name)), None)
    value = _returned(function)
    given = _given(function, call) if function is not None and value is not None else None
    if value is None or given is None:
        return call
    made: ast.expr = _Put(given).visit(copy.deepcopy(value))
    return ast.copy_location(made, call)


def place_of(sources: SourceTexts, stack: Sequence[Frame]) -> Frame | None:
    """The innermost line of the user's on a stack; of a function that only passes on what it is given, as
    ``def step(of): of.step()`` does, that of its caller."""
    return next((f for f in reversed(without_helpers(sources, stack)) if f.user), None)


def without_helpers(sources: SourceTexts, stack: Sequence[Frame]) -> list[Frame]:
    """The stack down to that line; all of it where no such function is the last of the user's on it."""
    users = [i for i, f in enumerate(stack) if f.user]
    while len(users) > 1 and _is_passed_on(sources, stack[users[-2]], stack[users[-1]]):
        users.pop()
        stack = stack[: users[-1] + 1]
    return list(stack)


def _is_passed_on(sources: SourceTexts, caller: Frame, inner: Frame) -> bool:
    """Whether a line calls the function around another place, and that function passes it on."""
    helper = bindings.function_at(sources, inner)
    if helper is None or not passes_on(helper):
        return False
    calls = each(bindings.tree_at(sources, caller), ast.Call)
    return any(called(n) == helper.name and covers(n, caller.line) for n in calls)


def call_made(sources: SourceTexts, stack: Sequence[Frame], *, values: bool = True) -> tuple[Frame, ast.expr] | None:
    """That place, and the call there, written out."""
    at = place_of(sources, stack)
    call = bindings.call_at(sources, at)
    return (at, written_out(sources, at, call, values=values)) if at is not None and call is not None else None


def passes_on(function: Function | None) -> bool:
    """Whether a function is one call, of and with nothing but its parameters."""
    value = _returned(function)
    if function is None or not isinstance(value, ast.Call):
        return False
    owner = value.func.value if isinstance(value.func, ast.Attribute) else value.func
    given = [a.value if isinstance(a, ast.Starred) else a for a in (*value.args, *(k.value for k in value.keywords))]
    names = parameters(function)
    return all(isinstance(n, ast.Name) and n.id in names for n in (owner, *given))


def _returned(function: Function | None) -> ast.expr | None:
    """What the only statement of a function computes."""
    body = function.body if function is not None else []
    statement = only([s for s in body if not isinstance(getattr(s, "value", None), ast.Constant)])
    return statement.value if isinstance(statement, ast.Return | ast.Expr) else None


def everywhere(sources: SourceTexts, kind: type[_One]) -> Iterator[tuple[str, _One]]:
    """The nodes of a kind in the files of a run, each with its file, with all expressions written out."""
    for file in sources:
        for node in each(in_one_piece(bindings.tree(sources, file)), kind):
            yield file, node


@lru_cache(maxsize=64)
def in_one_piece(root: ast.Module) -> ast.Module:
    """A copy of a file in which every expression is written out. The statements that bind what is put in elsewhere stay
    there; all places are those of the source."""
    made, within = copy.deepcopy(root), _Written(root, root, True, _NEAR)
    made.body = [within.visit(s) for s in made.body]
    return made


class _Written(ast.NodeTransformer):
    """Replaces names and calls; what it puts in has the place that it stands at."""

    def __init__(self, root: ast.Module, scope: Function | ast.Module, values: bool, most: int) -> None:
        own = own_nodes(scope)
        self.root, self.values, self.most, self.depth = root, values, most, 0
        nodes = list(ast.walk(scope))  # not ``walked``: what is written out changes
        self.reads = Counter(n.id for n in nodes if isinstance(n, ast.Name) and is_read(n))
        self.loops = [n for n in own if isinstance(n, Loop)]
        self.bound: dict[str, list[ast.stmt]] = {}
        for s in (n for n in own if isinstance(n, ast.stmt)):
            for t in targets_of(s):
                if isinstance(t, ast.Name):
                    self.bound.setdefault(t.id, []).append(s)
        self.given = {a.arg for a in nodes if isinstance(a, ast.arg)}
        self.given |= {n for c in nodes if isinstance(c, ast.comprehension) for n in plain_names(c.target)}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: Function) -> ast.AST:
        # What is put in is taken from the source, so that its depth stays bounded.
        same = (n for n in each(self.root, ast.FunctionDef, ast.AsyncFunctionDef) if n.lineno == node.lineno)
        own = next((n for n in same if n.col_offset == node.col_offset), None)
        if own is None:
            return node
        within = _Written(self.root, own, self.values, self.most)
        node.body = [within.visit(s) for s in node.body]
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._inner(self._value(node), node) if is_read(node) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        made = in_line(self.root, node)
        return self._inner(made, node) if made is not node else node

    def _inner(self, value: ast.expr | None, node: ast.expr) -> ast.AST:
        if value is None or self.depth >= self.most:
            return node
        self.depth += 1
        made: ast.AST = self.visit(copy.deepcopy(value))
        self.depth -= 1
        return made

    def _value(self, node: ast.Name) -> ast.expr | None:
        """What the name stands for; None where it is bound several times, or is more than a name for one use."""
        bound = self.bound.get(node.id, [])
        if len(bound) != 1 or node.id in self.given:
            return None
        value = only([v for target, v in pairs(bound[0]) if is_name(target, node.id)])
        if value is None or value.lineno >= node.lineno:
            return None
        if any(_repeats(loop, node.lineno) and not covers(loop, value.lineno) for loop in self.loops):
            return None  # kept from before the loop
        return value if is_path(value) or (self.values and self.reads[node.id] == 1) else None


def _repeats(loop: ast.stmt, line: int) -> bool:
    """Whether a loop runs a line again in each round: what it goes through is computed once."""
    once = isinstance(loop, ast.For | ast.AsyncFor) and line < loop.body[0].lineno
    return covers(loop, line) and not once


_Given = tuple[dict[str, list[ast.expr]], dict[str, list[ast.keyword]]]
"""What the parameters of a function are given, and what ``**more`` is."""


class _Put(ast.NodeTransformer):
    """Puts what is given in the place of parameters."""

    def __init__(self, given: _Given) -> None:
        self.given, self.more = given

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.given[node.id][0] if len(self.given.get(node.id, ())) == 1 else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.func = self.visit(node.func)  # what is given has names of its own, and is left as it is
        node.args = [a for one in node.args for a in self._several(one)]
        node.keywords = [k for one in node.keywords for k in self._more(one)]
        return node

    def _several(self, node: ast.expr) -> list[ast.expr]:
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.Name) and node.value.id in self.given:
            return self.given[node.value.id]
        return [self.visit(node)]

    def _more(self, given: ast.keyword) -> list[ast.keyword]:
        if given.arg is None and isinstance(given.value, ast.Name) and given.value.id in self.more:
            return self.more[given.value.id]
        given.value = self.visit(given.value)
        return [given]


def _given(function: ast.FunctionDef, call: ast.Call) -> _Given | None:
    """What each parameter is given; None where the call does not tell."""
    args = function.args
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    unknown = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    if unknown or args.kwonlyargs or (len(call.args) > len(names) and not args.vararg):
        return None
    found = {n: [a] for n, a in given_by(function, call).items()}
    if args.vararg is not None:
        found[args.vararg.arg] = call.args[len(names) :]
    more = {args.kwarg.arg: [k for k in call.keywords if k.arg not in names]} if args.kwarg is not None else {}
    return (found, more) if {*names} <= found.keys() else None
