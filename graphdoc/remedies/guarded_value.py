"""Keeping a function's input inside of its domain: which guard, at every place of the iteration that needs it."""

from __future__ import annotations

from typing import Any

from graphdoc.finding import Remedy
from graphdoc.model import Safety
from graphdoc.program.bad_values import Birth, Trouble, divisor_of
from graphdoc.program.number_limits import above_zero, singular_point
from graphdoc.program.spans import place
from graphdoc.source.expressions import position_of


def guarded(
    trouble: Trouble, birth: Birth, guard: str, title: str, note: str, *, safety: Safety = "unsafe", **args: Any
) -> tuple[Remedy, ...]:
    """One patch that guards the operand of this expression, and of those in the same iteration that failed alike."""
    alike = [birth, *(b for b in trouble.others if _alike(birth, b))]
    edits: list[dict[str, Any]] = []
    for one in alike:
        if one.place is None:
            continue
        function = {"function": one.operation} if position_of(one.operation) else {}
        edit = {"kind": "guard_operand", "args": {"place": place(one.place), "guard": guard, **function, **args}}
        if edit not in edits:
            edits.append(edit)
    if not edits:
        return ()
    if len(edits) == 1:
        return (Remedy("guard_operand", title, safety, note, edits[0]["args"]),)
    return (
        Remedy("several", title, safety, note, {"edits": edits}),
        Remedy("guard_operand", title, safety, note, edits[0]["args"]),
    )


def _alike(a: Birth, b: Birth) -> bool:
    return a.group == b.group and bool(a.group) and b.kind == "birth" and a.node == b.node


def bounded(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """The operand kept where this function has a value, for results that the program leaves out or bounds afterwards;
    none where the operand has values on both sides of zero that count."""
    point, operand = singular_point(birth.operation), birth.operand
    guard = point.guard_in(operand.dtype if operand is not None else "") if point is not None else ""
    guard = guard or above_zero(birth.group, operand)
    signed = birth.group in ("division", "pow") and (operand is None or operand.count("negative"))
    if not guard or signed:
        return ()
    title = "Bound what the function is given, before it is computed"
    return guarded(trouble, birth, guard, title, "Nothing changes beyond the bound; at the bound no gradient flows.")


def counts(birth: Birth) -> bool:
    """Whether what is divided by looks like a number of things: whole, never negative."""
    divisor = divisor_of(birth)
    if divisor is None or divisor.bounds is None:
        return False
    whole = all(bound.is_integer() for bound in divisor.bounds)
    return whole and not divisor.count("negative") and divisor.made_by("sum", "count_nonzero", "clone", "_to_copy")


def branches(trouble: Trouble, birth: Birth) -> list[dict[str, Any]]:
    """The functions of the same iteration that have no value where a choice leaves them out."""
    out: list[dict[str, Any]] = []
    for one in (birth, *trouble.others):
        point = singular_point(one.operation)
        if one.place is None or not (one.group or point) or (one.node and one.chosen is None):
            continue
        branch = {"place": place(one.place), "safe": point.safe if point is not None else "1.0"}
        branch |= {"function": one.operation} if position_of(one.operation) else {}
        if branch not in out:
            out.append(branch)
    return out
