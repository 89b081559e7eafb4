"""Calls of ours, inserted into an existing Python function without adding a frame or changing its identity.

A wrapper would stand in every traceback and would miss modules that imported the function by name. Instead the
function's own code object is replaced by one compiled from its own source with calls added at its edges; file name,
line and column of every original statement stay, so tracebacks are the same to the byte.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from graphdoc.capture.places.code_places import lines_of

_PREFIX = "_graphdoc_"


class CannotInsert(Exception):
    """The function has no readable source, or does not compile again to the same shape."""


def insert_calls(
    function: FunctionType,
    *,
    before: Callable[..., Any],
    failed: Callable[[Any, BaseException], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
    gave: Callable[[Any, Any], Any] | None = None,
    trouble: Callable[[Exception], Any] = bool,
) -> Callable[[], None]:
    """Add callbacks to ``function`` and return a function that undoes it.

    Args:
        before: called with the positional-parameter values, ``args`` and ``kwargs`` of the call; returns a token.
        failed: called with the token and the exception, before the exception goes on its way unchanged.
        after: called with the token when the call ends, either way.
        gave: called with the token and what the function is about to return; gives that back.
        trouble: told of what one of these raises; the call goes on without it.

    Where Python's recursion limit leaves no room for one, the call goes on without it as well, and the token is None.
    So it does in what torch.compile traces: there the callbacks are left out, without a graph break.

    Raises:
        CannotInsert: nothing was changed.
    """
    old = function.__code__
    how = any((failed, after, gave)), gave is not None
    known = _rewritten.get((id(old), *how))
    new_code = known[1] if known is not None else _new_code(function, *how)
    _rewritten[(id(old), *how)] = old, new_code
    key = _key(function)
    scope = function.__globals__
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    traced = getattr(compiler, "is_dynamo_compiling", bool)
    given = {"before": before, "failed": failed or _nothing, "after": after or _nothing, "gave": gave}
    named = {f"{key}_{end}": f for end, f in (given | {"trouble": trouble, "traced": traced}).items()}
    scope.update(named)
    function.__code__ = new_code

    def undo() -> None:
        function.__code__ = old
        for name in named:
            scope.pop(name, None)

    return undo


def _nothing(*_: Any) -> None:
    pass


_rewritten: dict[tuple[int, bool, bool], tuple[CodeType, CodeType]] = {}
"""The new code of each one that was rewritten before (a suite asks for the same in each test); the old for its id."""


def _new_code(function: FunctionType, guarding: bool, giving: bool) -> CodeType:
    """Raises CannotInsert."""
    try:
        first = function.__code__.co_firstlineno
        lines = inspect.getblock(lines_of(function.__code__.co_filename)[first - 1 :])
        # Parsed at its place in the file, a method in a block of its own: each line and column is what it was.
        indented = lines[0][:1].isspace()
        above = "\n" * (first - 2) + "if 1:\n" if indented else "\n" * (first - 1)
        definition: Any = ast.parse(above + "".join(lines)).body[0]
        definition = definition.body[0] if indented else definition
        if not isinstance(definition, ast.FunctionDef):
            raise CannotInsert(f"{function.__qualname__} is not a plain function")
        return _compile(definition, function, guarding, giving)
    except (OSError, TypeError, SyntaxError, ValueError, IndexError) as e:
        raise CannotInsert(str(e)) from e


def token_name(function: FunctionType) -> str:
    """The local name under which a function with an inserted call keeps the token of its call."""
    return _key(function) + "_token"


def _key(function: FunctionType) -> str:
    """The callbacks' name in the function's module; two classes of one module may both have an ``__enter__``."""
    return _PREFIX + "".join(c if c.isalnum() else "_" for c in function.__qualname__)


def _compile(definition: ast.FunctionDef, function: FunctionType, guarding: bool, giving: bool) -> CodeType:
    key = _key(function)
    if definition.decorator_list:
        # A function begins at its first decorator, and the line table counts from there.
        definition.lineno = definition.decorator_list[0].lineno
        definition.decorator_list = []
    arguments = definition.args
    values: list[ast.expr] = [
        ast.Name(a.arg, ast.Load()) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    values.append(ast.Name(arguments.vararg.arg, ast.Load()) if arguments.vararg else ast.Tuple([], ast.Load()))
    values.append(ast.Name(arguments.kwarg.arg, ast.Load()) if arguments.kwarg else ast.Dict([], []))
    token, error = token_name(function), key + "_error"

    def call(end: str, args: list[ast.expr]) -> ast.Call:
        return ast.Call(ast.Name(key + end, ast.Load()), args, [])

    def inserted(statement: ast.stmt, *instead: ast.stmt) -> ast.Try:
        """A call of ours, which may raise; the program may be so close to the limit that it cannot be made, or ended.

        Dynamo knows that ``traced`` is true while it traces, and never sees the call.
        """
        raised = key + "_raised"
        told = ast.Expr(call("_trouble", [ast.Name(raised, ast.Load())]))
        spent = ast.ExceptHandler(ast.Name("RecursionError", ast.Load()), None, [ast.Pass()])
        spoilt = ast.ExceptHandler(
            ast.Name("Exception", ast.Load()), raised, [*instead, ast.Try([told], [spent], [], [])]
        )
        return ast.Try([ast.If(call("_traced", []), [*instead, ast.Pass()], [statement])], [spoilt], [], [])

    documented = ast.get_docstring(definition, clean=False) is not None
    head, body = (definition.body[:1], definition.body[1:]) if documented else ([], definition.body)
    handler = ast.ExceptHandler(
        ast.Name("BaseException", ast.Load()),
        error,
        [
            inserted(ast.Expr(call("_failed", [ast.Name(token, ast.Load()), ast.Name(error, ast.Load())]))),
            # A bare raise in the same frame adds no traceback entry: the original line stays.
            ast.Raise(),
        ],
    )
    if giving:
        block = ast.Module(body, [])
        giver = _Giving(
            token, lambda kept, value: inserted(ast.Assign([kept], call("_gave", [ast.Name(token, ast.Load()), value])))
        )
        body = giver.visit(block).body
    after = inserted(ast.Expr(call("_after", [ast.Name(token, ast.Load())])))
    guarded = ast.Try(body, [handler], [], [after])
    none = ast.Assign([ast.Name(token, ast.Store())], ast.Constant(None))
    start = inserted(ast.Assign([ast.Name(token, ast.Store())], call("_before", values)), none)
    alone = inserted(ast.Expr(call("_before", values)))
    definition.body = [*head, start, guarded] if guarding else [*head, alone, *body]
    _put(definition.body, body[0])
    free = function.__code__.co_freevars
    if free:
        # Inside a function that has these names, the definition closes over them as it did.
        names: list[ast.stmt] = [ast.Assign([ast.Name(n, ast.Store()) for n in free], ast.Constant(None), lineno=1)]
        empty = ast.arguments([], [], None, [], [], None, [])
        outer = ast.FunctionDef(key + "_outer", empty, [*names, definition], [], lineno=1, col_offset=0)
        module = ast.fix_missing_locations(ast.Module([outer], []))
    else:
        module = ast.Module([definition], [])
    # The compiler must see the future imports of the function's own module and no others.
    flags = function.__code__.co_flags & 0x1FF0000
    compiled = compile(module, function.__code__.co_filename, "exec", flags=flags, dont_inherit=True)
    code = _find(compiled, function.__name__)
    if code is None or code.co_freevars != free or code.co_argcount != function.__code__.co_argcount:
        raise CannotInsert(f"{function.__qualname__} changed its shape")
    if code.co_firstlineno != function.__code__.co_firstlineno:
        raise CannotInsert(f"{function.__qualname__} was changed on disk")
    return code.replace(co_qualname=function.__code__.co_qualname)


class _Giving(ast.NodeTransformer):
    """Hands what is returned to a call first."""

    def __init__(self, name: str, handed: Callable[[ast.expr, ast.expr], ast.stmt]) -> None:
        self._name = name + "_given"
        self._handed = handed

    def visit_Return(self, given: ast.Return) -> ast.stmt | list[ast.stmt]:
        if given.value is None:
            return given
        result, kept = ast.Name(self._name, ast.Load()), ast.Name(self._name, ast.Store())
        new: list[ast.stmt] = [ast.Assign([kept], given.value), self._handed(kept, result), ast.Return(result)]
        _put(new, given.value)
        return new


def _put(nodes: Iterable[ast.AST], place: ast.AST) -> None:
    """Give what is new among these nodes a place; below one that has its own nothing is new."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if not hasattr(node, "lineno"):
            if isinstance(node, ast.stmt | ast.expr | ast.excepthandler):
                ast.copy_location(node, place)
            todo += ast.iter_child_nodes(node)


def _find(code: CodeType, name: str) -> CodeType | None:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_name == name:
                return inner
            if inner.co_name.startswith(_PREFIX):
                return _find(inner, name)
    return None
