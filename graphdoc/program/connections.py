"""Whether an edge into an older part of the graph is what a loss learns through."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import OlderEdge


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
