"""What lies behind the values that calls gave out: of each of the program's calls in which a node was made.

A node inside a call can lead to less than what the call gives out: a weight that is normalised before it is used leads
to itself alone, the result of the layer to all that went in. Whoever cuts at the call cuts off the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from graphdoc.capture.frames import site_of
from graphdoc.capture.walk import Above, Graph

MOST_LOOKED_AT = 20_000
"""Nodes that are looked at for all questions about one graph together; beyond, what lies behind a call is not known."""


class GivenOut:
    """Follows results towards the loss, as long as they stay inside one call.

    Args:
        order: the nodes of the graph, by number.
        bits: for each node the leaves that it leads to, as bits.
        stack: reads the stack of a node, innermost first.
    """

    def __init__(self, order: Graph, bits: Sequence[int], stack: Callable[[Any], list[Any]]) -> None:
        self._order, self._bits, self._stack = order, bits, stack
        self._users = Above(order)
        self._sites: dict[int, tuple[int, ...]] = {}
        self._left = MOST_LOOKED_AT

    def behind(self, number: int) -> list[int]:
        """The leaves behind what each call gave out, as bits: the innermost call of the program's first, each with
        those of the calls inside it. Calls of which it could not be told in time are left out.
        """
        own = self._site(number)
        if not own:
            return []
        found: list[int] = []
        shares: dict[int, int] = {number: len(own)}
        heap = [(-len(own), number)]
        bits, level = 0, len(own)
        while heap and self._left > 0:
            shared, at = -heap[0][0], heappop(heap)[1]
            found += [bits] * (level - shared)
            level = shared
            if not level:
                return found
            self._left -= 1
            bits |= self._bits[at]
            for user in self._users[at]:
                if user not in shares:
                    shares[user] = min(shared, _shared(own, self._site(user)))
                    heappush(heap, (-shares[user], user))
        return found if heap else found + [bits] * level

    def _site(self, number: int) -> tuple[int, ...]:
        """The program's calls under way when the node was made, outermost first."""
        site = self._sites.get(number)
        if site is None:
            site = self._sites[number] = site_of(self._stack(self._order.nodes[number]))[::-1]
        return site


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many outermost calls two nodes have in common."""
    number = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        number += 1
    return number
