"""What an expression stands for: followed behind names, into the callers of a function, and into what one returns."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.module import Function
from graphdoc.source.paths import is_path, last_word, only, path_of, targets_of
from graphdoc.source.scopes import own_nodes, parameters

MOST = 8
"""Steps that are followed from one expression."""
MOST_MEANT = 24
"""The same, where several places may give it."""
_COPIES = {"list", "tuple", "iter", "sorted"}


@dataclass(frozen=True)
class Bound:
    """``value`` is what ``name`` was given by the statement at the end of ``stack``."""

    name: str
    stack: tuple[Frame, ...]
    value: ast.expr


def behind(sources: SourceTexts, stack: Sequence[Frame], value: ast.expr | None) -> list[Bound]:
    """What an expression at the end of a stack was bound to, nearest first: by the one assignment to its name, by the
    call of the function that has it as an argument, or by the one ``return`` of a function that is called for it.
    Copies (``list(x)``) are looked through. Ends where two statements bind a name, or where the source does not tell.
    """
    found: list[Bound] = []
    here = tuple(f for f in stack if f.user)
    while value is not None and here and len(found) < MOST:
        value = uncopied(value)
        name = found[-1].name if found else ""
        step = _returned(sources, here, name, value) if isinstance(value, ast.Call) else _named(sources, here, value)
        if step is None:
            break
        found.append(step)
        here, value = step.stack, step.value
    return found


def uncopied(value: ast.expr) -> ast.expr:
    """What is copied: ``x`` of ``list(x)``; any other value as it is."""
    while isinstance(value, ast.Call) and bindings.dotted(value.func) in _COPIES and len(value.args) == 1:
        value = value.args[0]
    return value


def as_given(sources: SourceTexts, stack: Sequence[Frame], value: ast.expr) -> tuple[ast.expr, tuple[Frame, ...]]:
    """What an argument of the running function is in the caller that gives it, and that one's stack; any other value as
    it is."""
    here = tuple(f for f in stack if f.user)
    while isinstance(value, ast.Name) and here and not bindings.assignments(sources, here[-1], value.id):
        step = _named(sources, here, value)
        if step is None:
            break
        value, here = step.value, step.stack
    return value, here


@dataclass(frozen=True)
class Meant:
    """``value`` is what an expression may stand for, at the place ``at``; ``use`` is where it is used so: where the
    expression stands, or the call that hands it to the function around it."""

    use: Frame
    at: Frame
    value: ast.expr


def may_mean(sources: SourceTexts, use: Frame, value: ast.expr) -> list[Meant]:
    """All that a path may stand for: what the one statement gives it that binds it, or what the calls of its function
    do that has it as an argument; itself where the source does not tell."""
    todo, found = [Meant(use, use, value)], []
    for one in todo:
        inner = _meant(sources, one) if len(todo) < MOST_MEANT else []
        todo += inner
        found += [] if inner else [one]
    return found


def _meant(sources: SourceTexts, one: Meant) -> list[Meant]:
    at, name = one.at, path_of(one.value)
    bound = bindings.assignments(sources, at, name)
    if len(bound) == 1 and is_path(bound[0][1]) and _one_target(sources, bound[0][0], name):
        return [Meant(one.use, *bound[0])]
    function = bindings.function_at(sources, at)
    if bound or function is None or name not in parameters(function):
        return []
    calls = bindings.calls_named(sources, called_as(sources, at, function))
    given = [(c, g) for c in calls if (g := bindings.given_as(sources, at, c, name)) is not None]
    used_here = bindings.function_at(sources, one.use) is function
    return [Meant(c if used_here else one.use, c, g) for c, g in given] if len(given) == len(calls) else []


def _one_target(sources: SourceTexts, at: Frame, name: str) -> bool:
    """Whether a statement binds this name alone, and no loop or ``with`` of its function binds it as well."""
    statement, scope = bindings.statement_at(sources, at), bindings.scope_at(sources, at)
    whole = statement is not None and [path_of(t) for t in targets_of(statement)] == [name]
    kinds = ast.For | ast.AsyncFor | ast.With | ast.AsyncWith | ast.AugAssign
    others = (n for n in own_nodes(scope) if isinstance(n, kinds))
    return whole and not any(name in map(path_of, targets_of(n)) for n in others)


def called_as(sources: SourceTexts, at: Frame, function: Function) -> str:
    """By which last name a function is called: a class by its own for its ``__init__``."""
    around = bindings.class_around(bindings.tree_at(sources, at), function.lineno)
    return around.name if around is not None and function.name == "__init__" else function.name


def one_return(sources: SourceTexts, call: ast.expr | None) -> tuple[Frame, ast.expr] | None:
    """The place and the value of the one ``return`` of a function of the program's own that is called by its name."""
    name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    found = only([(file, n) for file, n in bindings.everywhere(sources, ast.FunctionDef) if n.name == name])
    if found is None:
        return None
    file, function = found
    given = only([n for n in own_nodes(function) if isinstance(n, ast.Return)])
    if given is None or given.value is None:
        return None
    return bindings.frame_of(sources, file, given, function.name), given.value


def _returned(sources: SourceTexts, here: tuple[Frame, ...], name: str, call: ast.Call) -> Bound | None:
    given = one_return(sources, call)
    if given is None:
        return None
    return Bound(name, (*here[:-1], bindings.frame_of(sources, here[-1].file, call), given[0]), given[1])


def _named(sources: SourceTexts, here: tuple[Frame, ...], value: ast.expr) -> Bound | None:
    at, name = here[-1], path_of(value)
    known = bindings.assignments(sources, at, name)
    function = bindings.function_at(sources, at)
    if known:
        statement, given = known[0]
        inside = statement.file == at.file and bindings.function_at(sources, statement) is function
        bound = Bound(name, (*(here[:-1] if inside else ()), statement), given)
        return _part(sources, bound) if len(known) == 1 else None
    if function is None or name not in parameters(function):
        return None
    caller = _caller(sources, here, function)
    handed = bindings.given_as(sources, at, caller[-1], name) if caller else None
    return Bound(name, caller, handed) if handed is not None else None


def _part(sources: SourceTexts, bound: Bound) -> Bound | None:
    """The same for the one name, of those that the statement binds; None where it takes apart what is not written."""
    statement = bindings.statement_at(sources, bound.stack[-1])
    names = [path_of(t) for t in targets_of(statement)] if statement is not None else []
    if len(names) == 1:
        return bound
    if isinstance(bound.value, ast.Call):
        bound = _returned(sources, bound.stack, bound.name, bound.value) or bound
    parts = bound.value.elts if isinstance(bound.value, ast.Tuple | ast.List) else []
    return replace(bound, value=parts[names.index(bound.name)]) if len(parts) == len(names) else None


def _caller(sources: SourceTexts, here: tuple[Frame, ...], function: Function) -> tuple[Frame, ...]:
    """The stack that ends in the call of a function: the running one, or the only one in the source."""
    name = called_as(sources, here[-1], function)
    if len(here) > 1:
        call = bindings.call_at(sources, here[-2])
        if call is not None and last_word(call.func) == name:
            return here[:-1]
    found = only(bindings.calls_named(sources, name))
    return (found,) if found is not None else ()
