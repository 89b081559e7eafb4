"""Parameters of which each element's own way to the loss is flat, and that are reached through a scale alone.

``round(w / s) * s`` with ``s = w.abs().amax()``: the derivative of the rounding is zero, and what arrives at ``w`` is
the gradient of ``s``. Read off the graph: no number is looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from graphdoc.capture.walk import Found

_ELEMENTWISE = (
    *("Abs", "Add", "Sub", "Mul", "Div", "Neg", "Pow", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Tanh", "Sigmoid"),
    *("Clamp", "ClampMin", "ClampMax", "Clone", "ToCopy", "Relu", "T", "Transpose", "View", "UnsafeView", "Reshape"),
    *("Permute", "Unsqueeze", "Squeeze", "Expand", "Alias", "Maximum", "Minimum"),
)
"""Nodes of operations by which each element of the result comes from one element of each operand."""
_REDUCING = (
    *("Amax", "Amin", "Max", "Min", "Mean", "Sum", "Std", "Var", "Norm", "LinalgVectorNorm", "Median", "Aminmax"),
    *("StdMean", "VarMean"),
)
MOST_CLIMBED = 200
"""Nodes above one parameter that are looked at."""


@dataclass(frozen=True)
class Flat:
    """``stop`` is the position of the node that lets nothing pass, ``scale`` of the one that the rest comes through."""

    stop: int
    scale: int


def flat_ways(order: list[Found], zero: Collection[int], numbers: Collection[int]) -> dict[int, Flat]:
    """Of the leaves at these positions, those that are reached through a scale alone.

    Args:
        order: the graph; the loss comes first.
        zero: positions of the nodes whose derivative is zero.
    """
    above: dict[int, list[int]] = {}
    for found in order:
        for number in found.following:
            above.setdefault(number, []).append(found.number)
    over = _above(zero, above)
    return {n: flat for n in numbers if (flat := _flat(order, n, zero, above, over)) is not None}


def _flat(
    order: list[Found], leaf: int, zero: Collection[int], above: dict[int, list[int]], over: set[int]
) -> Flat | None:
    elements = order[leaf].leaf.numel()
    stops, scales = list[int](), list[int]()
    todo, seen = list(above.get(leaf, ())), set[int]()
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        if len(seen) > MOST_CLIMBED:
            return None
        kind = _kind(order[number].node)
        if number in zero:
            stops.append(number)
        elif kind in _REDUCING and number not in over:
            scales.append(number)
        elif kind in _ELEMENTWISE and _elements(order[number].node) == elements and above.get(number):
            todo += above[number]
        else:
            return None
    if not stops or not scales or elements < 2:
        return None
    return (
        Flat(stops[0], scales[0]) if all(_multiplies(order, s, elements, zero, above, over) for s in scales) else None
    )


def _multiplies(
    order: list[Found], scale: int, elements: int, zero: Collection[int], above: dict[int, list[int]], over: set[int]
) -> bool:
    """Whether all that is made of the scale goes into the value that was flattened, element by element."""
    todo, seen = list(above.get(scale, ())), set[int]()
    while todo:
        number = todo.pop()
        if number in seen or number in zero:
            continue
        seen.add(number)
        node = order[number].node
        if len(seen) > MOST_CLIMBED or _kind(node) not in _ELEMENTWISE:
            return False
        if number in over and _elements(node) == elements:
            continue  # here both meet again
        if not above.get(number):
            return False
        todo += above[number]
    return bool(seen)


def _above(zero: Collection[int], above: dict[int, list[int]]) -> set[int]:
    """The nodes from which one of these is reached."""
    todo, found = list(zero), set[int]()
    for number in todo:
        more = [n for n in above.get(number, ()) if n not in found]
        found.update(more)
        todo += more
    return found


def _kind(node: Any) -> str:
    return type(node).__name__.partition("Backward")[0]


def _elements(node: Any) -> int:
    """How many elements the operation's result has; 0 where the node does not tell."""
    try:
        count = 1
        for size in node._input_metadata[0].shape:
            count *= int(size)
        return count
    except (AttributeError, IndexError, TypeError, RuntimeError):
        return 0
