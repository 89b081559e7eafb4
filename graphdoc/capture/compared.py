"""Values of an older graph that a loss only compares with what it computes anew from the same parameters."""

from __future__ import annotations

from graphdoc.capture.walk import Found

COMPARING = (
    "SubBackward",
    "RsubBackward",
    "DivBackward",
    "MseLoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "KlDivBackward",
    "BinaryCrossEntropy",
)
"""Names of the nodes of a difference, a ratio, a distance (torch/csrc/autograd/generated)."""
_RATIO = ("DivBackward", "KlDivBackward", "BinaryCrossEntropy")
_EXPONENTIAL = ("ExpBackward0",)
_PRODUCT, _LOG_OF_DISTRIBUTION = "MulBackward0", "LogSoftmaxBackward0"
"""A cross entropy of two distributions, of which ``F.kl_div`` makes a part, is the one times the logarithm of the
other."""


def compared_edges(
    order: list[Found], upper: dict[int, list[int]], bits: list[int], numbers: list[int], edges: list[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Those of the edges whose value, on every way up, is set against something that reaches all the same parameters
    without such an edge, before anything else is mixed with it: as a ``ratio`` (of probabilities), or a ``distance``;
    ``part`` where it reaches some of them.

    What has both on its way up (``xlogy(p, p) - p * log_q``) is asked at each of the operations that take the value in.

    Args:
        order: the nodes of the graph, as ``walk`` found them.
        upper: the nodes that lead to each of them at once, as ``above`` tells.
        bits: the leaves that each of them leads to, as bit sets.
        numbers: what ``upward`` says of the graph.
        edges: from a fresh node to one of the older graph.
    """
    old = set(edges)
    fresh = [0] * len(order)
    for n in numbers:
        if order[n].leaf is not None:
            fresh[n] = bits[n]
        for m in order[n].following:
            if (n, m) not in old:
                fresh[n] |= fresh[m]
    older = {m for _, m in edges}
    found = {(n, m): _compared(order, upper, fresh, older, (n, m), bits[m]) for n, m in edges}
    return {edge: how for edge, how in found.items() if how}


def _compared(
    order: list[Found],
    upper: dict[int, list[int]],
    fresh: list[int],
    older: set[int],
    edge: tuple[int, int],
    shared: int,
) -> str:
    consumer, producer = edge
    way = {producer, consumer}
    todo = [consumer]
    how, whole = "ratio", True
    while todo:
        n = todo.pop()
        op = order[n].op
        others = [m for m in order[n].following if m != producer and m not in older]
        against = [m for m in others if fresh[m] & shared]
        whole = whole and (not against or any(fresh[m] & shared == shared for m in against))
        if against and op.startswith(COMPARING):
            ratio = op.startswith(_RATIO) or any(order[u].op in _EXPONENTIAL for u in upper.get(n, ()))
            how = how if ratio or any(order[m].op == _PRODUCT for m in against) else "distance"
            continue
        if op == _PRODUCT and any(order[m].op == _LOG_OF_DISTRIBUTION for m in against):
            continue
        if any(fresh[m] for m in others if m not in way) or not upper.get(n):
            return ""
        new = set(upper[n]) - way
        way |= new
        todo += new
    return how if whole else "part"
