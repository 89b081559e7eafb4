"""Whether a statement keeps a value under a name: what it binds, fills or sets, and whether that is a mere start."""

from __future__ import annotations

import ast

from graphdoc.evidence import Holder
from graphdoc.program.container_entries import FILLING
from graphdoc.source.paths import last_word, targets_of, without_subscripts


def kept_name(holder: Holder) -> str:
    """The last name on the way to the tensor: the field, attribute or variable whose entries are what is kept."""
    return next((s.key for s in reversed(holder.steps) if s.kind in ("name", "attribute")), holder.base)


def keeps(statement: ast.stmt, name: str, plain: bool) -> bool:
    """Whether a statement binds a name, fills it or sets it, as an attribute too unless the name is ``plain``."""
    given = _keywords(statement.value) if isinstance(statement, ast.Assign) and not plain else []
    if any(k.arg == name and _is_kept(k.value) for k in given):
        return True
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and any(
        _names(target, name, plain) for target in targets_of(statement)
    ):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value.func
        if isinstance(call, ast.Attribute) and call.attr in FILLING and _names(call.value, name, plain):
            return True
        return last_word(call) == "setattr" and not plain and _is_text(statement.value.args[1:2], name)
    return False


def _is_text(arguments: list[ast.expr], text: str) -> bool:
    return any(isinstance(a, ast.Constant) and a.value == text for a in arguments)


def _keywords(value: ast.expr) -> list[ast.keyword]:
    return value.keywords if isinstance(value, ast.Call) else []


def _is_kept(value: ast.expr) -> bool:
    """Not an empty start value that is filled later."""
    return not isinstance(value, ast.Constant) and not (
        isinstance(value, ast.List | ast.Dict) and not ast.unparse(value)[1:-1]
    )


def _names(target: ast.expr, name: str, plain: bool) -> bool:
    while isinstance(target, ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Attribute):
        return not plain and target.attr == name
    return isinstance(target, ast.Name) and target.id == name


def is_start(statement: ast.stmt) -> bool:
    """``h = None``, ``loss = 0``, ``state = torch.zeros(…)``: a start value, not what is carried."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        return value.func.attr in ("zeros", "zeros_like", "ones", "empty", "init_hidden", "reset", "full", "randn")
    return isinstance(value, ast.List | ast.Dict | ast.Tuple) and not (
        getattr(value, "elts", None) or getattr(value, "keys", None)
    )


def is_local(statement: ast.stmt, holder: Holder) -> bool:
    """``name = …``: the name itself is bound, no entry is put in and no attribute set. Where the value itself is the
    attribute, what is put into a part of a local tensor of that name is another one as well.
    """
    bound = [t for t in targets_of(statement) if _names(t, kept_name(holder), False)]
    if holder.steps[-1].kind == "attribute":
        bound = [without_subscripts(t) for t in bound]
    return bool(bound) and all(isinstance(t, ast.Name) for t in bound)


def misses(statement: ast.stmt, holder: Holder) -> bool:
    """Whether no target of this name puts the tensor there: it writes inside the tensor (``state[0, row] = x`` where
    ``state`` is one) or to an entry of a tuple, which has no place for it."""
    last = max((i for i, s in enumerate(holder.steps) if s.kind in ("name", "attribute")), default=0)
    inner = holder.steps[last + 1 :]
    within = [n for t in targets_of(statement) if (n := _subscripts(t, kept_name(holder))) is not None]
    return bool(within) and all(
        n > len(inner) or (n > 0 and (holder.steps[last + n - 1].type == "tuple" or inner[n - 1].kind == "field"))
        for n in within
    )


def _subscripts(target: ast.expr, name: str) -> int | None:
    """How many subscripts stand behind a name in a target; None where it is another's."""
    count = 0
    while isinstance(target, ast.Subscript | ast.Starred):
        count += isinstance(target, ast.Subscript)
        target = target.value
    word = last_word(target)
    return count if word == name else None
