"""Whether an edge into an older part of the graph is what a loss learns through."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import Carry, Evidence
from graphdoc.program.observed import program_of


def is_needed(evidence: Evidence, carries: Sequence[Carry]) -> bool:
    """Whether the failing loss reaches what it is meant to train by these edges alone: cutting them ends its learning.

    False also where it is not known what the loss is to train, and for edges of an earlier loss.
    """
    trained = program_of(evidence).trained
    if not trained or not carries or any(c in evidence.siblings for c in carries):
        return False
    behind = {name for c in carries for name in c.behind}
    return bool(trained & behind) and not trained & set(evidence.fresh_reaches)
