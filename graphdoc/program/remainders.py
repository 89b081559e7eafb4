"""Conditions on a remainder (``i % every == 0``) or a count: whether one would have held by now, what waits for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import conditions_on, loops_around
from graphdoc.source.module import each, has, is_method_call
from graphdoc.source.paths import bare_call, called, is_constant, only, pairs, path_of, targets_of
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


# Steps for several passes: a remainder decides on them, every fourth batch, or a count of what has been passed; or they
# stand behind the loop.


def waits_for_a_count(sources: SourceTexts, step: Sequence[Frame], call: Sequence[Frame]) -> bool:
    """Whether a condition on a remainder decides on the step and not on this call, or one on a number that each round
    raises and that begins anew beside the step. Both are stacks."""
    for at in step:
        beside = next((f for f in call if f.in_function_of(at)), None)
        tests = conditions_on(sources, at, beside)
        if any(isinstance(op.op, ast.Mod) for test, _ in tests for op in each(test, ast.BinOp)):
            return True
        counts = (side for t in tests for n in _needed(*t) for side in (n.left, *n.comparators))
        if any(_begins_anew(sources, at, call, side) for side in counts):
            return True
    return False


def _needed(test: ast.expr, wanted: bool) -> Iterator[ast.Compare]:
    """The comparisons without which a condition does not hold, or does not fail; also where there is a last round, of
    so many, beside them."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _needed(test.operand, not wanted)
    elif isinstance(test, ast.BoolOp):
        each_alone = isinstance(test.op, ast.And) is wanted
        for one in test.values:
            lasts = (any(called(n) == "len" for n in each(v, ast.Call)) for v in test.values if v is not one)
            if each_alone or all(lasts):
                yield from _needed(one, wanted)
    elif isinstance(test, ast.Compare):
        yield test


def _begins_anew(sources: SourceTexts, step: Frame, call: Sequence[Frame], side: ast.expr) -> bool:
    """Whether what a condition compares, ``n`` or ``len(kept)``, grows whenever there is a call, and is emptied where
    the step is made."""
    path = path_of(side.args[0] if isinstance(side, ast.Call) and called(side) == "len" and side.args else side)

    def deciding(at: Frame) -> set[int]:
        return {id(t) for t, _ in conditions_on(sources, at, next((f for f in call if f.in_function_of(at)), None))}

    own, grows, ends = deciding(step), False, False
    for place in (*call[-1:], step) if path else ():
        for node in each(bindings.scope_at(sources, place), ast.stmt):
            there = deciding(bindings.frame_of(sources, place, node))
            grows = grows or (_adds(node, path) and not there)
            ends = ends or (_empties(node, path) and not own.isdisjoint(there))
    return grows and ends


def _adds(node: ast.stmt, path: str) -> bool:
    if isinstance(node, ast.Assign):
        sums = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add)
        return sums and path in map(path_of, [*node.targets]) and path in map(path_of, each(node.value, ast.expr))
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and path_of(node.target) == path
    call = bare_call(node)
    return is_method_call(call, "append", "extend") and path_of(call.func.value) == path


def _empties(node: ast.stmt, path: str) -> bool:
    call = bare_call(node)
    if is_method_call(call, "clear"):
        return path_of(call.func.value) == path
    given = next((value for target, value in pairs(node) if path_of(target) == path), None)
    return given is not None and bindings.text_of(given) in ("0", "0.0", "[]", "list()")
