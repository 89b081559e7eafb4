"""What the source of a custom Function's backward computes for each input of its forward."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoc.program import bindings
from graphdoc.source.paths import targets_of

_WORDS = ("grad", "gradient", "g", "d", "dl")
"""What stands before or behind an input's name in that of its gradient: `grad_weight`, `weight_grad`, `dW`."""


@dataclass(frozen=True)
class InputGradients:
    """One value for each input: a name or expression of backward, or ``None``. ``by_order`` are the inputs that got
    theirs by nothing but their order; of which input such a value is the gradient, its name does not say."""

    values: tuple[str, ...]
    by_order: tuple[str, ...] = ()


def input_gradients(
    backward: ast.FunctionDef,
    returned: ast.Return | None,
    inputs: Sequence[str],
    needs: Sequence[bool],
    numbers: frozenset[int],
) -> InputGradients | None:
    """What can be returned at the place of ``returned`` (None: at the end), each value at the place of its input.

    A value belongs to the input whose name it carries. The others, of what is returned already and of what backward
    computes and never reads, are handed out in their order, where there are as many as inputs that need a gradient.
    None where an input that needs one would be left without.
    """
    bound = _bound_before(backward.body, returned)
    read = {n for s in backward.body for n in _computed_with(s)}
    written = [bindings.text_of(v) for v in returned_values(returned)]
    computed = [*written, *(n for n in bound if n not in written)]
    found: dict[int, str] = {}
    for i, name in enumerate(inputs):
        own = [v for v in computed if name and _is_gradient_of(v, name)]
        if own and i not in numbers:
            found[i] = own[0]
    left = [v for v in computed if v not in found.values() and v != "None" and (v in written or v not in read)]
    open_ = [i for i in range(len(inputs)) if i not in found and i not in numbers]
    wanting = [i for i in open_ if not needs or needs[i]]
    for group in (wanting, open_):
        if group and len(group) == len(left):
            found.update(zip(group, left, strict=True))
            break
    if not found or any(i not in found for i in wanting):
        return None
    by_order = [inputs[i] for i in open_ if i in found]
    values = tuple(found.get(i, "None") for i in range(len(inputs)))
    return InputGradients(values, tuple(by_order) if len(by_order) > 1 else ())


def returned_values(returned: ast.Return | None) -> list[ast.expr]:
    """The values that a return statement writes out, those of a list as well; any other is one value."""
    value = returned.value if returned is not None else None
    if value is None:
        return []
    return list(value.elts) if isinstance(value, ast.Tuple | ast.List) else [value]


def reaches_end(body: Sequence[ast.stmt]) -> bool:
    """Whether a function may come to its end without a return."""
    last = body[-1]
    if isinstance(last, ast.If):
        return not last.orelse or reaches_end(last.body) or reaches_end(last.orelse)
    if isinstance(last, ast.With):
        return reaches_end(last.body)
    return not isinstance(last, ast.Return | ast.Raise)


def _is_gradient_of(value: str, name: str) -> bool:
    """Whether a name says that it is the gradient of an input: `grad_w`, `w_grad`, `dW` of `w`."""
    if not value.isidentifier():
        return False
    own, wanted = (re.sub("_", "", text.lower()) for text in (value, name))
    return any(own in (word + wanted, wanted + word) for word in _WORDS)


def _bound_before(body: Sequence[ast.stmt], at: ast.stmt | None) -> list[str]:
    """The names that a body has computed when it comes to a statement, or to its end, whatever way it took."""
    names: dict[str, None] = {}
    for statement in body:
        if statement is at:
            break
        inner = next((b for b in _blocks(statement) if at is not None and at in _all(b)), None)
        if inner is not None:
            names.update(dict.fromkeys(_bound_before(inner, at)))
            break
        names.update(dict.fromkeys(_binds(statement)))
    return list(names)


def _binds(statement: ast.stmt) -> list[str]:
    """The names that a statement binds to something computed; not those that it takes from `ctx`."""
    if isinstance(statement, ast.With):
        return _bound_before(statement.body, None)
    if isinstance(statement, ast.If):
        first, other = (_bound_before(b, None) if b else [] for b in (statement.body, statement.orelse))
        return [n for n in first if n in other]
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or isinstance(value, ast.Attribute):
        return []
    return [t.id for t in targets_of(statement) if isinstance(t, ast.Name)]


def _computed_with(node: ast.AST) -> Iterator[str]:
    """The names that a statement computes something with; a value that is returned as it is is none of them."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    returned = (
        [v for v in returned_values(node) if not isinstance(v, ast.Name)] if isinstance(node, ast.Return) else None
    )
    for child in ast.iter_child_nodes(node) if returned is None else returned:
        yield from _computed_with(child)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield from [block] if (block := getattr(statement, name, None)) else []


def _all(block: Sequence[ast.stmt]) -> list[ast.AST]:
    return [n for statement in block for n in ast.walk(statement)]
