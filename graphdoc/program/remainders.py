"""Conditions on a remainder (``i % every == 0``): whether one that could ever hold would have held by now."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import loops_around
from graphdoc.source.module import Function
from graphdoc.source.paths import blocks_of, covers, is_constant, only

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
    for _ in range(MOST_LEVELS):
        function = bindings.function_at(sources, at)
        inside = [f for f in stack if f.user and f.file == at.file and bindings.function_at(sources, f) is function]
        tests = conditions_on(sources, at, inside[-1] if inside else None)
        judged = [_of_remainder(t, wanted, numbers, rounds) for t, wanted in tests]
        if None in judged or (not inside and loops_around(sources, at)):
            return None
        found += [
            NeverMet(bindings.frame_of(sources, at.file, t), t, wanted, *of)
            for (t, wanted), of in zip(tests, judged, strict=True)
            if of is not None
        ]
        if inside:
            below = [f for f in stack[stack.index(inside[-1]) + 1 :] if f.user]
            same = loops_around(sources, at) == loops_around(sources, inside[-1])
            return only(found) if same and not any(loops_around(sources, f) for f in below) else None
        call = only(bindings.calls_named(sources, function.name)) if function is not None else None
        if call is None:
            return None
        at = call
    return None


def conditions_on(sources: SourceTexts, at: Frame, beside: Frame | None = None) -> list[tuple[ast.expr, bool]]:
    """The conditions on which a statement runs, in its function, each with whether it has to hold; those alone that do
    not decide on ``beside`` too."""
    statement = bindings.statement_at(sources, at)
    found: list[tuple[ast.expr, bool]] = []
    inner: ast.AST | None = statement
    for around in bindings.source_at(sources, at).node_ancestors(statement) if statement is not None else ():
        for block in blocks_of(around):
            if inner not in block:
                continue
            if isinstance(around, ast.If) and not (beside is not None and covers(around, beside.line)):
                found.append((around.test, inner in around.body))
            # ``if …: continue`` in front of it
            above = [s for s in block[: block.index(inner)] if isinstance(s, ast.If)]
            found += [
                (s.test, False)
                for s in above
                if isinstance(s.body[-1], ast.Continue | ast.Return) and (beside is None or s.lineno > beside.line)
            ]
        if isinstance(around, Function):
            break
        inner = around
    return found


def _of_remainder(test: ast.expr, wanted: bool, numbers: Mapping[str, int], rounds: int) -> tuple[str, int] | None:
    """What a condition takes a remainder by, for which so many rounds are enough; None for another condition."""
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
    by = bindings.text_of(test.right)
    number = test.right.value if isinstance(test.right, ast.Constant) else numbers.get(by)
    return (by, number) if isinstance(number, int) and 0 < 2 * number <= rounds else None


def is_of_whole_remainder(met: NeverMet) -> bool:
    """Whether the condition holds for each remainder but zero, and there is no other: ``i % 1``, ``i % 1 != 0``."""
    test = met.test if met.wanted else None
    if isinstance(test, ast.Compare):
        if not isinstance(test.ops[0], ast.NotEq | ast.Gt) or not is_constant(test.comparators[0], 0):
            return False
        test = test.left
    return met.number == 1 and isinstance(test, ast.BinOp)
