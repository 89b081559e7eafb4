"""Which expression made each node of a graph: worked out once for all nodes that one running function made there."""

from __future__ import annotations

from typing import Any

from graphdoc.capture.frames import site_of
from graphdoc.capture.node_stacks import kept_in
from graphdoc.capture.stacks import Stack


class Sites:
    """Numbers expressions. Two nodes have one number if they were made by the same expression, reached the same way.

    Library frames are part of that: two nodes of one module call are not the same expression. For a graph whose nodes
    are all kept meanwhile.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def of(self, node: Any) -> int:
        """The number of the expression that made this node."""
        kept = kept_in(node)
        if not isinstance(kept, Stack):
            return self._number(kept if isinstance(kept, list) else [])
        key = id(kept.chain), kept.lasti
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._number(kept)
        return known

    def _number(self, stack: Any) -> int:
        return self._numbers.setdefault(site_of(stack, library=True), len(self._numbers))
