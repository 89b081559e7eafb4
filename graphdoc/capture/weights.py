"""Values that a loss takes in as weights alone: by which it multiplies what leads to other parameters."""

from __future__ import annotations

from graphdoc.capture.walk import Above, Found

_PRODUCT = "MulBackward0"


def weight_of(order: list[Found], upper: Above, bits: list[int], consumer: int, shared: int) -> str:
    """Whether all that a graph makes of a value, above the node that takes it in, ends as a factor of a product.

    ``alone`` where the other factor leads to parameters, and to none of those behind the value; ``beside`` where it
    leads to some of these as well; empty where something else becomes of the value.

    Args:
        order: the nodes of the graph, as ``walk`` found them.
        upper: the nodes that lead to each of them at once, of the whole graph.
        bits: the leaves that each of them leads to, as bit sets.
        consumer: the number of the node that takes the value in.
        shared: the leaves behind the value.
    """
    seen = {consumer}
    todo = [consumer]
    how = "alone"
    while todo:
        n = todo.pop()
        if bits[n] & ~shared:
            beside = [bits[m] for m in order[n].following if bits[m] & ~shared]
            if order[n].op != _PRODUCT:
                return ""
            how = "beside" if any(b & shared for b in beside) else how
            continue
        if not upper[n]:
            return ""
        new = set(upper[n]) - seen
        seen |= new
        todo += new
    return how
