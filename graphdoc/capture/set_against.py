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
_RATIO = ("KlDivBackward", "BinaryCrossEntropy")
_DIFFERENCE = ("SubBackward", "RsubBackward")
_LINEAR = "linear"
_WEAK = _WEIGHED, _ASIDE = "weighed", "aside"
_TURNS = ("PowBackward", "AbsBackward", "NormBackward", "LinalgVectorNormBackward", "ExpBackward")
"""What makes a distance, or a ratio, of a difference: the terms of a loss are subtracted as well, and that is all."""
_PASSES = (
    *("MeanBackward", "SumBackward", "NegBackward", "ViewBackward", "ReshapeBackward", "UnsafeViewBackward"),
    *("SelectBackward", "IndexBackward", "SliceBackward", "SqueezeBackward", "UnsqueezeBackward", "ExpandBackward"),
    *("MulBackward", "DivBackward", "StackBackward", "CatBackward", "TBackward", "TransposeBackward"),
)
"""Through these a difference stays one."""
_PRODUCT, _LOG_OF_DISTRIBUTION = "MulBackward0", "LogSoftmaxBackward0"
"""A cross entropy of two distributions, of which ``F.kl_div`` makes a part, is the one times the logarithm of the
other."""


def compared_edges(
    order: list[Found], upper: dict[int, list[int]], bits: list[int], numbers: list[int], edges: list[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Those of the edges whose value, on every way up, is set against something that reaches all the same parameters
    without such an edge, before anything else is mixed with it: as a ``ratio`` (of probabilities), or a ``distance``;
    ``part`` where it reaches some of them, ``aside`` where it reaches others alone; ``weighed`` where it is multiplied
    with what reaches some of them, too.

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
    mixed = [False] * len(order)
    for n in numbers:
        mixed[n] = any(m in older or mixed[m] for m in order[n].following)
    found = {(n, m): _compared(order, upper, fresh, mixed, older, (n, m), bits[m]) for n, m in edges}
    sure = {m for (_, m), how in found.items() if how not in ("", _LINEAR, *_WEAK)}
    # A difference alone may be one of two terms of a loss; beside a ratio it is an estimate of the divergence.
    found.update({edge: "ratio" if edge[1] in sure else "" for edge, how in found.items() if how == _LINEAR})
    return {edge: how for edge, how in found.items() if how}


def _compared(
    order: list[Found],
    upper: dict[int, list[int]],
    fresh: list[int],
    mixed: list[bool],
    older: set[int],
    edge: tuple[int, int],
    shared: int,
) -> str:
    consumer, producer = edge
    way = {producer, consumer}
    todo = [consumer]
    how, whole = "ratio", True
    weak: set[str] = set()
    while todo:
        n = todo.pop()
        op = order[n].op
        others = [m for m in order[n].following if m != producer and m not in older]
        # A parameter itself was not computed: what is divided by its size is only scaled.
        against = [m for m in others if fresh[m] & shared and order[m].leaf is None]
        whole = whole and (not against or any(fresh[m] & shared == shared for m in against))
        if against and op.startswith(COMPARING):
            turned = _turned(order, upper, n) if op.startswith(_DIFFERENCE) else ""
            # Of a divergence, the term that has both in it. What is times a number is a term of any loss.
            cross = any(order[m].op == _PRODUCT and mixed[m] for m in against)
            if op.startswith(_DIFFERENCE) and not turned and not cross:
                how = _LINEAR
                continue
            ratio = cross or op.startswith(_RATIO) or turned.startswith("Exp")
            how = how if ratio or how == _LINEAR else "distance"
            continue
        if op == _PRODUCT and against:
            if not any(order[m].op == _LOG_OF_DISTRIBUTION for m in against):
                weak.add(_WEIGHED)
            continue
        beside = [m for m in others if fresh[m] and m not in way]
        computed = bool(beside) and all(order[m].leaf is None for m in beside)
        if computed and op.startswith(COMPARING) and (not op.startswith(_DIFFERENCE) or _turned(order, upper, n)):
            weak.add(_ASIDE)
            continue
        if beside or not upper.get(n):
            return ""
        new = set(upper[n]) - way
        way |= new
        todo += new
    if weak:
        return min(weak)
    return how if whole or how == _LINEAR else "part"


def _turned(order: list[Found], upper: dict[int, list[int]], start: int) -> str:
    """What a difference is first made into, of ``_TURNS``, through what leaves it one; or nothing."""
    todo, seen = [start], {start}
    while todo:
        for n in upper.get(todo.pop(), ()):
            op = order[n].op
            if op.startswith(_TURNS) or (op == _PRODUCT and len(set(order[n].following)) < len(order[n].following)):
                return op
            if op.startswith(_PASSES) and n not in seen:
                seen.add(n)
                todo.append(n)
    return ""
