"""Conditions on a remainder (``i % every == 0``): whether one that could ever hold would have held by now."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import conditions_on, loops_around
from graphdoc.source.module import has
from graphdoc.source.paths import is_constant, only, path_of, targets_of
from graphdoc.source.scopes import bound_names, parameters

MOST_LEVELS = 3
"""Functions that are followed to their caller."""


@dataclass(frozen=True)
class NeverMet:
    """``at`` is the whole condition; ``by`` the number of which a remainder is taken there, as the program spells it,
    and ``number`` what it is. ``wanted``: whether it had to hold, or not to, as that of ``if …: continue``."""

    at: Frame
    test: ast.expr
    wanted: bool
    by: str
    number: int


def never_met(
    sources: SourceTexts, at: Frame, stack: Sequence[Frame], numbers: Mapping[str, int], rounds: int
) -> NeverMet | None:
    """The condition that has kept what stands at ``at`` from running, in so many rounds that begin at the end of
    ``stack``: of a remainder by a number so small that a running count of them would have met each one twice.
    ``numbers`` are those of the run, by their names. None where another condition may have done it, or where its rounds
    are others.
    """
    found: list[NeverMet] = []
    step = at
    for _ in range(MOST_LEVELS):
        function = bindings.function_at(sources, at)
        inside = [f for f in stack if f.user and f.file == at.file and bindings.function_at(sources, f) is function]
        tests = conditions_on(sources, at, inside[-1] if inside else None)
        for test, wanted in tests:
            of = _of_remainder(test, wanted, numbers, rounds)
            place = bindings.frame_of(sources, at, test)
            if of is None or not (
                _is_known(sources, place, of[0].right, stack) and _counts(sources, place, step, test, of)
            ):
                return None
            found.append(NeverMet(place, test, wanted, bindings.text_of(of[0].right), of[1]))
        if not inside and loops_around(sources, at):
            return None
        if inside:
            below = [f for f in stack[stack.index(inside[-1]) + 1 :] if f.user]
            same = loops_around(sources, at) == loops_around(sources, inside[-1])
            return only(found) if same and not any(loops_around(sources, f) for f in below) else None
        call = only(bindings.calls_named(sources, function.name)) if function is not None else None
        if call is None:
            return None
        at = call
    return None


def _is_known(sources: SourceTexts, test: Frame, by: ast.expr, stack: Sequence[Frame]) -> bool:
    """Whether a name of the run's numbers means in this condition what it means in the running functions: one of these
    has it, or another method of their class, or it is nobody's own."""
    function, first = bindings.function_at(sources, test), next(iter(bindings.names_in(by)), "").partition(".")[0]
    running = [f for f in stack if f.user and f.file == test.file]
    if function is None or any(bindings.function_at(sources, f) is function for f in running):
        return True
    owners = [bindings.class_around(bindings.tree(sources, f.file), f.line) for f in (test, *running)]
    return owners[0] in owners[1:] if first == "self" else first not in bound_names(function)


def _counts(sources: SourceTexts, test: Frame, step: Frame, condition: ast.expr, of: tuple[ast.BinOp, int]) -> bool:
    """Whether the remainder is of what each round adds to, or the step alone: anything else may not have moved yet. By
    one it is always zero."""
    names = bindings.names_in(of[0].left) if not has(of[0].left, ast.Call) else []
    return of[1] == 1 or any(_is_counted(sources, test, step, condition, name, MOST_LEVELS) for name in names)


def _is_counted(sources: SourceTexts, at: Frame, step: Frame, condition: ast.expr, name: str, levels: int) -> bool:
    function, loops = bindings.function_at(sources, at), loops_around(sources, at)
    if any(name in map(path_of, targets_of(loop)) for loop in loops[:1]):
        return True
    if function is not None and name in parameters(function):
        call = only(bindings.calls_named(sources, function.name)) if levels else None
        given = bindings.names_in(bindings.given_as(sources, at, call, name)) if call is not None else []
        return call is not None and any(_is_counted(sources, call, step, condition, n, levels - 1) for n in given)

    def in_each_round(added: Frame) -> bool:
        around = bindings.function_at(sources, added)
        if around is function and loops_around(sources, added) == loops and not conditions_on(sources, added, at):
            return True
        behind = any(test is condition for test, _ in conditions_on(sources, added))
        return behind or around is bindings.function_at(sources, step) is not function

    bound = ((f, bindings.statement_at(sources, f)) for f, _ in bindings.assignments(sources, at, name))
    added = [(f, s) for f, s in bound if isinstance(s, ast.AugAssign)]
    whole = all(isinstance(s.value, ast.Constant) and isinstance(s.value.value, int) for _, s in added)
    return bool(added) and whole and all(in_each_round(f) for f, _ in added)


def _of_remainder(
    test: ast.expr, wanted: bool, numbers: Mapping[str, int], rounds: int
) -> tuple[ast.BinOp, int] | None:
    """The remainder that a condition takes, and by which number, for which so many rounds are enough; None for another
    condition."""
    if isinstance(test, ast.BoolOp):
        found = [_of_remainder(v, wanted, numbers, rounds) for v in test.values]
        known = [f for f in found if f is not None]
        one_is_enough = isinstance(test.op, ast.Or) is wanted
        return known[0] if known and (one_is_enough or len(known) == len(found)) else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _of_remainder(test.operand, not wanted, numbers, rounds)
    if isinstance(test, ast.Compare) and len(test.comparators) == 1:
        return _of_remainder(test.left, wanted, numbers, rounds)
    if not (isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)):
        return None
    number = test.right.value if isinstance(test.right, ast.Constant) else numbers.get(bindings.text_of(test.right))
    return (test, number) if isinstance(number, int) and 0 < 2 * number <= rounds else None


def is_of_whole_remainder(met: NeverMet) -> bool:
    """Whether the condition holds for each remainder but zero, and there is no other: ``i % 1``, ``i % 1 != 0``."""
    test = met.test if met.wanted else None
    if isinstance(test, ast.Compare):
        if not isinstance(test.ops[0], ast.NotEq | ast.Gt) or not is_constant(test.comparators[0], 0):
            return False
        test = test.left
    return met.number == 1 and isinstance(test, ast.BinOp)
