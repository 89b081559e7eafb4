"""A flag that a function hands on to a call: where the program decides on it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import call_at, function_around, tree


def decided_at(sources: SourceTexts, stack: Sequence[Frame], flag: str) -> tuple[Frame, str] | None:
    """The user's call that decides on a flag of the innermost call of his on ``stack``, and the flag's name there.

    Mostly that call itself. Where it gets the flag from a parameter of the function around it, or takes what that
    function is given by ``**``, the call of that function; None where the source does not tell.
    """
    for frame in (f for f in reversed(stack) if f.user):
        call = call_at(sources, frame)
        if call is None:
            return None
        given = next((k.value for k in call.keywords if k.arg == flag), None)
        others = [k.value for k in call.keywords if k.arg is None]
        if isinstance(given, ast.Constant) or (given is None and not others):
            return (frame, flag) if not any(isinstance(a, ast.Starred) for a in call.args) else None
        root = tree(sources, frame.file)
        function = function_around(root, frame.line) if root is not None else None
        handed = _handed(function, given, others, flag) if function is not None else None
        if handed is None:
            return None
        flag = handed
    return None


def _handed(
    function: ast.FunctionDef | ast.AsyncFunctionDef, given: ast.expr | None, others: list[ast.expr], flag: str
) -> str | None:
    """The keyword by which the caller of a function gives the flag; None where it is another thing, or has to be given
    by its position."""
    known = function.args
    optional = {a.arg for a in known.kwonlyargs} | {a.arg for a in known.args[len(known.args) - len(known.defaults) :]}
    if isinstance(given, ast.Name):
        return given.id if given.id in optional and not _bound(function, given.id) else None
    every = {a.arg for a in (*known.posonlyargs, *known.args, *known.kwonlyargs)}
    rest = known.kwarg.arg if known.kwarg is not None else ""
    whole = len(others) == 1 and isinstance(others[0], ast.Name) and others[0].id == rest
    return flag if given is None and whole and flag not in every and not _bound(function, rest) else None


def _bound(function: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(function))
