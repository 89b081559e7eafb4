"""What edges into an older graph mean: whether a loss learns through them, whether a value is old as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import Folded, OlderEdge


def is_needed(
    fresh_reaches: list[str],
    earlier_edges: list[OlderEdge],
    carries: Sequence[OlderEdge],
    trained: frozenset[str] | None,
) -> bool:
    """Whether the failing loss reaches what it is meant to train by these edges alone: cutting them ends its learning.

    ``trained`` are the names of the parameters that it is to train. False also where they are not known, and for edges
    of an earlier loss.
    """
    if not trained or not carries or any(c in earlier_edges for c in carries):
        return False
    behind = {name for c in carries for name in c.behind}
    return bool(trained & behind) and not trained & set(fresh_reaches)


def takes_only_older(folded: Folded | None, node: int) -> bool:
    """Whether all that the expression takes which made a node of the failing graph was there before the latest backward
    call: it computes nothing from what this pass has made, and from no parameter itself. False where unknown."""
    home = folded.homes[node] if folded is not None and 0 <= node < len(folded.homes) else -1
    if folded is None or home < 0:
        return False
    taken = [folded.parts[to] for start, to, _ in folded.edges if start == home != to]
    return bool(taken) and all(part.older and not part.parameters for part in taken)
