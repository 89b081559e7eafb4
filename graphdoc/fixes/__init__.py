"""The kinds of fix, one file for each, and what puts a report's fixes together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.fixes.trying import Trying
    from graphdoc.launch.keep import Kept
    from graphdoc.model import Report


def propose(kept: Kept, report: Report, *, verify: bool = True, trying: Trying | None = None) -> Report:
    """See ``graphdoc.fixes.proposals.propose``; loaded only when asked for."""
    from graphdoc.fixes import proposals

    return proposals.propose(kept, report, verify=verify, trying=trying)
