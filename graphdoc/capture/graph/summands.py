"""What a loss is a weighted sum of, read from the top of its graph; and its terms, each with a graph of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from graphdoc.capture.graph.walk import DEEP, VIEWS, Graph, inputs_of, nodes_behind, output_shape, reached

MOST_TOP = 200
"""Nodes of the sum at the top of a loss that are looked at."""
SUMS = {"AddBackward0", "SubBackward0", "RsubBackward0"}
SCALING = {"MulBackward0", "DivBackward0"}
LINEAR = (
    *("Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "Clone", "ToCopy", "T", "Transpose", "View", "UnsafeView"),
    *("ReshapeAlias", "Permute", "Unsqueeze", "Squeeze", "Expand", "Alias", "Select", "Slice"),
)
_ADDED = {*LINEAR, "Stack", "Cat", "Unbind"}
_PICKING = ("Index", "MaskedSelect", "MaskedFill", "Where", "Gather", "Cat", "Stack")
PRODUCTS = ("Dot", "Mv", "Mm", "Bmm")


def sums_without_graph(roots: list[Any]) -> list[Any]:
    """The additions at the top of a loss in which one side has no graph; a plain number has none. To write such a
    number into a vector that the loss is the sum of is one."""
    numbers = top_of(roots)
    found = []
    for node in dict.fromkeys([*numbers, *added_up(roots)]):
        following = [n for n, _ in node.next_functions]
        filled = _is_filled(node) and following[0] is not None  # the first one is written into a plain vector
        sums = filled or (type(node).__name__ in SUMS and node in numbers) or kind_of(node) == "Add"
        if sums and None in following and any(n is not None for n in following):
            found.append(node)
    return found


def top_of(roots: list[Any], rows: bool = False) -> list[Any]:
    """The nodes that a loss is a weighted sum of, and those sums themselves, as far as they are single numbers.
    ``rows``: or one number for each row of a batch."""
    todo = [root for root in roots if root is not None]
    for node in todo:
        if len(todo) < MOST_TOP:
            todo += summands(node, rows)
    return todo


def terms_of(roots: list[Any], rows: bool = False) -> list[Any]:
    """The nodes that a loss is a weighted sum of; one that is no such sum is its only term."""
    return [node for node in dict.fromkeys(top_of(roots, rows)) if not summands(node, rows)]


def summands(node: Any, rows: bool = False) -> list[Any]:
    """What a node that adds or scales single numbers takes; none for another node."""
    name = type(node).__name__
    following = [n for n, _ in node.next_functions if n is not None]
    scaled = name in SCALING and len(following) == 1 and not (rows and factor_of(node) is None)
    if scaled or kind_of(node) in _ADDED:
        return [n for n in following if is_number(n) or (rows and _is_row(n)) or _is_filled(n)]
    if _is_filled(node):
        return [n for n in following if is_number(n) or _is_filled(n)]
    return []


def is_linear(node: Any) -> bool:
    """Whether a change of an operand by a constant changes no gradient below."""
    kind, ways = kind_of(node), [n is not None for n, _ in node.next_functions]
    return kind in LINEAR or (sum(ways) == 1 and (kind == "Mul" or (kind == "Div" and ways[0])))


def added_up(roots: list[Any], whole: Collection[Any] = ()) -> list[Any]:
    """The nodes that a loss is a weighted sum of element by element, as a mean under a mask is, and those sums
    themselves; ``whole``: not taken apart."""
    return [*reached([n for n in roots if n is not None], lambda n: _added_in(n, whole))]


def element_terms(roots: list[Any], whole: Collection[Any] = ()) -> list[Any]:
    """What a loss is such a sum of."""
    return [n for n in added_up(roots, whole) if not _added_in(n, whole)]


def _added_in(node: Any, whole: Collection[Any]) -> list[Any]:
    taken, kind = inputs_of(node), kind_of(node)
    added = is_linear(node) or kind in _PICKING or (kind in PRODUCTS and len(taken) == 1)
    return taken if added and node not in whole else []


def reshaped(node: Any) -> list[Any]:
    """What a node gives in another shape, or times one number."""
    scaled = type(node).__name__ in SCALING and factor_of(node) is not None
    return inputs_of(node) if scaled or type(node).__name__ in VIEWS else []


def kind_of(node: Any) -> str:
    return type(node).__name__.partition("Backward")[0]


def factor_of(node: Any) -> float | None:
    """The number that a product or quotient has as its constant side; None for more than one number, or if unknown."""
    try:
        constant = node._saved_other if node.next_functions[0][0] is not None else node._saved_self
        return float(constant.detach()) if constant.numel() == 1 else None
    except (AttributeError, IndexError, RuntimeError):
        return None  # released, or written since


def _is_filled(node: Any) -> bool:
    """Whether a node is a write into a part of a tensor: ``losses[0] = loss_box``."""
    return type(node).__name__ == "CopySlices"


def _is_row(node: Any) -> bool:
    shape = output_shape(node)
    return shape is not None and sum(size != 1 for size in shape) <= 1


def is_number(node: Any) -> bool:
    """Whether the output of a node has one element, or a shape that cannot be read."""
    shape = output_shape(node)
    return shape is None or all(size == 1 for size in shape)


def emptied(order: Graph, edges: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those of some edges of a graph below a term of the loss that reaches no leaf but through such edges: with
    constants in their place the term is one. ``order`` is a walk of the graph from the loss."""
    cut, root = set(edges), order.nodes[0]
    top = set(top_of([root])) if cut else set()
    found = {(n, m) for n, m in cut if order.nodes[n] in top and order.nodes[m] in summands(order.nodes[n])}
    for start in order.numbers_of(terms_of([root])).values() if cut else ():
        below = list(reached([start], lambda n: [m for m in order.following(n) if (n, m) not in cut]))
        if start and order.leaves.keys().isdisjoint(below):
            found |= {(n, m) for n in below for m in order.following(n) if (n, m) in cut}
    return found


# Terms of one loss, each with its own graph: what one of them reaches.

MOST = 12
"""Terms of one loss that are looked at one by one."""
MOST_NODES = DEEP - 1


class Part:
    """One term: its nodes by sequence number, and the ids of the leaves that it reaches."""

    def __init__(self, term: Any) -> None:
        self.nodes: dict[int, Any] = {}
        self.leaves: set[int] = set()
        self.whole = True
        for count, (node, following) in enumerate(nodes_behind([term])):
            leaf = getattr(node, "variable", None) if not following else None
            if leaf is not None:
                self.leaves.add(id(leaf))
            else:
                self.nodes[int(node._sequence_nr())] = node
            if count >= MOST_NODES:
                self.whole = False
                return


def constants(nodes: Iterable[Any]) -> list[float | None]:
    """The constant sides of products; None for one that is more than a number."""
    products = [n for n in nodes if type(n).__name__ == "MulBackward0" and None in [m for m, _ in n.next_functions]]
    return [factor_of(n) for n in products]


def parts_of(roots: list[Any]) -> list[Part]:
    """The terms of a loss that are more than one, and of which each has few enough nodes."""
    terms = terms_of(roots, rows=True)
    parts = [Part(t) for t in terms] if 1 < len(terms) <= MOST else []
    return parts if all(p.whole for p in parts) else []


def missed_by(part: Part, parts: list[Part], held: Collection[int]) -> set[int]:
    """The leaves that an optimizer holds and that other terms of the loss reach, and this one does not."""
    return {i for p in parts for i in p.leaves if i in held} - part.leaves
