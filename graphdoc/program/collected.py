"""Parameters that a function picks out by their names into a group which nothing ever reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.name_filters import lets_through
from graphdoc.source.paths import without_subscripts

Scope = ast.FunctionDef | ast.AsyncFunctionDef
Block = list[ast.stmt]
_ALL_NAMES = {"locals", "vars", "eval", "exec"}


@dataclass(frozen=True)
class Collected:
    """``name`` is filled at ``filled`` with ``parameters`` and not read again; ``handed`` is the statement by which the
    same block hands over another group of that name (empty for none), ``following`` what stands behind the loop."""

    name: str
    filled: Frame
    parameters: list[str]
    handed: str
    following: Frame | None


@dataclass(frozen=True)
class _Filling:
    """``for name, p in module.named_parameters(): … group.append(p)``."""

    group: str
    module: str
    variable: str
    tests: tuple[tuple[ast.expr, bool], ...]
    statement: ast.stmt


def never_given(sources: SourceTexts, loose: list[str], others: list[str]) -> Collected | None:
    """The one group that a program fills with parameters of ``loose`` alone, and forgets.

    Args:
        sources: the program's files.
        loose: names of parameters that no optimizer holds.
        others: names of all others.

    Returns:
        None where no such group is found, several are, or the source does not tell whom one takes.
    """
    found = [
        collected
        for file in sources
        for scope in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(scope, Scope) and _keeps_to_names(scope)
        for block in _straight(scope)
        for at, loop in enumerate(block)
        if isinstance(loop, ast.For)
        for filling in _fillings(loop)
        if _is_forgotten(scope, block, at, filling)
        and (collected := _collected(sources, file, block, at, filling, loose, others)) is not None
    ]
    return found[0] if len(found) == 1 else None


def _collected(
    sources: SourceTexts,
    file: str,
    block: Block,
    at: int,
    filling: _Filling,
    loose: list[str],
    others: list[str],
) -> Collected | None:
    taken = _taken(filling, loose)
    if not taken or _taken(filling, others) != []:
        return None
    behind = block[at + 1] if at + 1 < len(block) else None
    return Collected(
        filling.group,
        bindings.frame_of(sources, file, filling.statement),
        taken,
        _handed(block, filling.group),
        bindings.frame_of(sources, file, behind) if behind is not None else None,
    )


def _keeps_to_names(scope: Scope) -> bool:
    """Whether what a function does with its names stands in its text."""
    for n in ast.walk(scope):
        if isinstance(n, ast.Global | ast.Nonlocal):
            return False
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in _ALL_NAMES:
            return False
    return True


def _straight(scope: Scope) -> Iterator[Block]:
    """The blocks of a function that run at most once for a call: its own, and those of conditions and contexts."""
    todo: list[Block] = [scope.body]
    for block in todo:
        yield block
        for statement in block:
            if isinstance(statement, ast.If | ast.With | ast.Try):
                todo += [b for f in ("body", "orelse", "finalbody") if (b := getattr(statement, f, None))]


def _fillings(loop: ast.For) -> list[_Filling]:
    """What this loop over the parameters of a module puts where."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return []
    target, variable = loop.target, ""
    if call.func.attr == "named_parameters" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        variable, target = bindings.text_of(target.elts[0]), target.elts[1]
    elif call.func.attr != "parameters":
        return []
    if not isinstance(target, ast.Name):
        return []
    module = bindings.text_of(call.func.value)
    found = []
    todo: list[tuple[Block, tuple[tuple[ast.expr, bool], ...]]] = [(loop.body, ())]
    for block, tests in todo:
        for statement in block:
            if isinstance(statement, ast.If):
                todo += [(statement.body, (*tests, (statement.test, True)))]
                todo += [(statement.orelse, (*tests, (statement.test, False)))]
            elif group := _filled(statement, target.id):
                found.append(_Filling(group, module, variable, tests, statement))
    return found


def _filled(statement: ast.stmt, parameter: str) -> str:
    """``group`` of ``group.append(p)`` and ``group["params"].append(p)``; empty for any other statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return ""
    if [bindings.text_of(a) for a in call.args] != [parameter]:
        return ""
    group = without_subscripts(call.func.value)
    return group.id if isinstance(group, ast.Name) else ""


def _is_forgotten(scope: Scope, block: Block, at: int, filling: _Filling) -> bool:
    """Whether the group is bound in front of the loop, and read by nothing until it is bound anew or the function
    ends."""
    bound = [i for i, s in enumerate(block) if _binds(s, filling.group)]
    start = max((i for i in bound if i < at), default=-1)
    if start < 0:
        return False
    end = min((i for i in bound if i > at), default=len(block))
    first, last = block[start].lineno, block[end].end_lineno if end < len(block) else scope.end_lineno
    inside = {id(n) for s in block[start + 1 : end] for n in ast.walk(s)}
    written = {id(n) for s in ast.walk(scope) for n in _names_written(s, filling.group)}
    for n in ast.walk(scope):
        if not isinstance(n, ast.Name) or n.id != filling.group or not isinstance(n.ctx, ast.Load):
            continue
        if id(n) in written:
            continue
        if id(n) in inside or (first <= n.lineno <= (last or n.lineno)):
            return False
    return not any(_is_inner(n) and filling.group in bindings.names_in(n) for n in ast.walk(scope) if n is not scope)


def _is_inner(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef)


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether this gives ``name`` a new value: only what is made in place is nobody else's."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict | ast.List | ast.Call):
        return False
    return [bindings.text_of(t) for t in statement.targets] == [name]


def _names_written(statement: ast.AST, name: str) -> list[ast.Name]:
    """The names in ``group["params"] = []`` and ``group.append(p)``, by which a group is filled and not read."""
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = [t for t in statement.targets if isinstance(t, ast.Subscript)]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        targets = [call.func.value] if isinstance(call.func, ast.Attribute) and call.func.attr == "append" else []
    else:
        return []
    bases = [without_subscripts(t) for t in targets]
    return [b for b in bases if isinstance(b, ast.Name) and b.id == name]


def _taken(filling: _Filling, names: list[str]) -> list[str] | None:
    """Which of these parameters the loop puts into its group; None where the source does not tell."""
    found = []
    for name in names:
        own = _own_name(filling.module, name)
        passes = [_passes(test, filling.variable, own, wanted) for test, wanted in filling.tests] if own else [False]
        if None in passes:
            return None
        if all(passes):
            found.append(name)
    return found


def _own_name(module: str, name: str) -> str:
    """The parameter's name within its module, which the loop calls ``module``; empty where it lies elsewhere."""
    parts, last = name.split("."), module.rpartition(".")[2]
    at = parts.index(last) if last in parts[:-1] else 0
    return ".".join(parts[at + 1 :])


def _passes(test: ast.expr, variable: str, name: str, wanted: bool) -> bool | None:
    if isinstance(test, ast.Attribute) and test.attr == "requires_grad":
        return wanted
    holds = lets_through(test, variable, name)
    return None if holds is None else holds is wanted


def _handed(block: Block, group: str) -> str:
    """``groups.append(group)``, where the block does so with another group of this name."""
    calls = [
        s
        for s in block
        if isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and isinstance(s.value.func, ast.Attribute)
        and s.value.func.attr == "append"
        and [bindings.text_of(a) for a in s.value.args] == [group]
    ]
    texts = {bindings.text_of(s) for s in calls}
    return texts.pop() if len(texts) == 1 else ""
