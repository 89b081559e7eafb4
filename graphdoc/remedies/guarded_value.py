"""Keeping a function's input inside of its domain: which guard, at every place of the iteration that needs it."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import Any

from graphdoc.evidence import Frame
from graphdoc.finding import Remedy, edit_at, remedy_at
from graphdoc.program.bad_values import Birth, Trouble, divisor_of
from graphdoc.program.bindings import scope_at
from graphdoc.program.number_limits import POSITIVE, above_zero, largest_exponent, least_above_zero, singular_point
from graphdoc.program.spans import place
from graphdoc.remedies.fix_places import applies
from graphdoc.source.expressions import name_of, position_of
from graphdoc.source.module import each
from graphdoc.source.paths import is_read, parse_expression
from graphdoc.source.scopes import reads


def guarded(trouble: Trouble, birth: Birth, guard: str, title: str, note: str, **args: Any) -> tuple[Remedy, ...]:
    """One patch that guards the operand of this expression, and of those in the same iteration that failed alike."""
    alike = [birth, *(b for b in trouble.others if _alike(birth, b))]
    edits: list[dict[str, Any]] = []
    for one in alike:
        if one.place is None:
            continue
        named: dict[str, Any] = {"function": one.operation} if position_of(one.operation) else {}
        if trouble.is_inside(one):
            named = {"argument": 0}
        edit = edit_at("guard_operand", one.place, guard=guard, **named, **args)
        if edit not in edits:
            edits.append(edit)
    if not edits:
        return ()
    beyond = next((told for one in alike if (told := _open_beyond(one))), "")
    single = Remedy("guard_operand", title, "unsafe", note, edits[0]["args"], beyond)
    if len(edits) == 1:
        return (single,)
    return (Remedy("several", title, "unsafe", note, {"edits": edits}, beyond), single)


def without_exponential(frame: Frame | None) -> tuple[Remedy, ...]:
    """The logarithm of the exponential at this place, or of a sum of such, in one function."""
    title = "Take the logarithm of the exponentials in one function"
    return remedy_at(frame, "log_sum_exp", title, "unsafe", "the same number, without leaving the range")


_ROUNDING = 0.01
"""How far outside of its domain a value may lie by rounding alone, among values up to one; among larger ones, times
the largest."""


def _open_beyond(birth: Birth) -> str:
    """That values lie outside of the function's domain by more than rounding: a bound makes them finite and lets
    nothing be learned from them, and what the formula should have been given, no run tells."""
    bounds = birth.operand.bounds if birth.operand is not None else None
    if birth.node or birth.shows != "nan" or birth.operand is None or bounds is None:
        return ""
    point = singular_point(birth.operation) or (POSITIVE if birth.group in ("log", "sqrt", "pow") else None)
    room = _ROUNDING * max(birth.operand.largest, 1.0)
    if point is None or not point.leaves(bounds[0] + room, bounds[1] - room):
        return ""
    far = bounds[0] if point.low is not None and bounds[0] + room < point.low else bounds[1]
    return f"{far:.3g} is no rounding: what belongs there instead, no run tells, and a bound trains nothing with it"


def for_every_use(trouble: Trouble, birth: Birth, bound: float, upper: bool, title: str) -> tuple[Remedy, ...]:
    """The value under its name kept below a bound (``upper``) or above it, for all that its function computes from it.

    What explodes at one use is held back there by its own growth. If only that use is bounded, the others decide alone
    from then on, and drive the value further out: ``exp(-a) * e + a``. None where it has no name of its own, no other
    use, or a ``where`` among them, which may take it beyond the bound.
    """
    name, factor = _scaled(parse_expression(trouble.operand(birth)))
    scope = scope_at(trouble.sources, birth.place)
    own = parse_expression(trouble.code(birth))
    chosen = (c for c in each(scope, ast.Call) if name_of(c) == "where")
    if birth.place is None or not factor or any(reads(c, name) for c in chosen):
        return ()
    if _uses(scope, name) <= _uses(own, name):
        return ()
    guard = f"clamp_{'max' if upper == (factor > 0) else 'min'}({float(f'{bound / factor:.3g}')})"
    args = {"place": place(birth.place), "name": name, "guard": guard}
    note = f"Beyond the bound no gradient reaches `{name}` from any of its uses."
    remedy = Remedy("bound_name", title, "unsafe", note, args)
    return (remedy,) if applies(trouble.sources, remedy) else ()


def _uses(code: ast.AST | None, name: str) -> int:
    return sum(n.id == name and is_read(n) for n in each(code, ast.Name))


def kept_above_zero(trouble: Trouble, birth: Birth, alone: bool = False) -> tuple[Remedy, ...]:
    """One bound above zero for this function and for others of the iteration that fail by the very same value, or by a
    power of it; none where there are no others, unless it grows without bound ``alone``."""
    maker, _ = _made(birth)
    others = (b for b in (*trouble.chain, *trouble.others) if b.kind == "birth" and b.place != birth.place)
    alike = [birth, *(b for b in others if maker is not None and _made(b)[0] == maker)]
    same = [(b, _made(b)[1], least) for b in alike if (least := least_above_zero(b.group, b.operand))]
    if not least_above_zero(birth.group, birth.operand) or not (alone or len(same) > 1):
        return ()
    needed = max(float(least) ** (0.5**powers) for _, powers, least in same)
    ways = (
        for_every_use(trouble, b, needed ** (2**powers), False, _KEEP.format(trouble.operand(b)))
        for b, powers, _ in same
        if not _is_signed(b)
    )
    return next((way for way in ways if way), ())


_KEEP = "Keep `{}` above zero for all that is computed from it"


def _made(birth: Birth) -> tuple[Frame | None, int]:
    """What made the value that a function was given a power of, and how many squares lie between."""
    makers = birth.operand.makers if birth.operand is not None else []
    powers = len(list(takewhile(lambda made: made[0] in ("pow", "square"), makers)))
    return (makers[powers][1] if len(makers) > powers else None), powers


def _is_signed(birth: Birth) -> bool:
    """Whether a function has values on both sides of zero, and is given such: a bound above it would change them."""
    both = birth.group in ("division", "pow")
    return both and (birth.operand is None or bool(birth.operand.count("negative")))


def _scaled(node: ast.expr | None) -> tuple[str, float]:
    """The name and the factor of ``x``, ``-x``, ``0.5 * x`` and ``x / 2``; a factor of zero for anything else."""
    if isinstance(node, ast.Name):
        return node.id, 1.0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        name, factor = _scaled(node.operand)
        return name, -factor
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult | ast.Div):
        return "", 0.0
    parts = [(node.left, node.right)]
    if isinstance(node.op, ast.Mult):
        parts += [(node.right, node.left)]
    for part, number in parts:
        name, factor = _scaled(part)
        try:
            by = float(ast.literal_eval(number))
        except (ValueError, TypeError):
            continue
        if factor and by:
            return name, factor / by if isinstance(node.op, ast.Div) else factor * by
    return "", 0.0


def _alike(a: Birth, b: Birth) -> bool:
    same = a.group == b.group and bool(a.group) and b.kind == "birth" and a.node == b.node
    return same and _is_signed(a) >= _is_signed(b)


def bounded(trouble: Trouble, birth: Birth) -> tuple[Remedy, ...]:
    """The operand kept where this function has a value, for results that the program leaves out or bounds afterwards;
    none where the operand has values on both sides of zero that count."""
    point, operand = singular_point(birth.operation), birth.operand
    guard = point.guard_in(operand.dtype if operand is not None else "") if point is not None else ""
    guard = guard or above_zero(birth.group, operand) or largest_exponent(birth.operation, birth.output.dtype)
    if not guard or _is_signed(birth):
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
