"""Copies of parameters that were kept with their graph, and from which the parameters' distance is measured later.

Both sides of such a difference lead to the same parameter, with derivatives that cancel. Told from the graph alone: by
nothing but copies and views, one side made before a step of the parameter's optimizer and the other one behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import _getframe
from typing import TYPE_CHECKING, Any

from graphdoc.capture import node_stacks, walk
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.frames import site_of, users_line
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import tensor_roots
from graphdoc.capture.walk import VIEWS
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted


MOST_LOOKS = 30
OFTEN = 2
"""Calls in which the same is seen before it is told."""
DEEPEST = 8
"""Copies and views inside each other that are worked out."""
WIDEST = 4000
"""Values in one concatenation."""

COPIES = {"CloneBackward0", "ToCopyBackward0", "CatBackward0", "StackBackward0"}
_SAME = {"CloneBackward0", "ToCopyBackward0", "AliasBackward0"}
"""Their result has the elements of their operand, each at its place."""
_DIFFERENCES = {"SubBackward0": 1, "AddBackward0": -1}
"""A difference where the second operand has this factor."""
_DISTANCES = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0", "DistBackward0"}

_settings: dict[type, tuple[str, ...]] = {}


class References(Watch):
    """``own-copy``: ``stack`` is where such a copy was made, ``other`` the difference, ``parameters`` what was copied,
    ``facts["backward"]`` the backward call."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._counts: dict[Any, int] = {}

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call that is looked at is about to run."""
        if self._found or self._has_looked(MOST_LOOKS):
            return
        every = self._audit.journal.optimizers.values()
        latest = sorted((seen.sequence, seen.parameters) for seen in every if seen.steps)
        stepped = {i: at for at, mine in latest for i in mine if i in leaves}
        if not stepped:
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, _getframe(1)):
            order = walk.walk(tensor_roots(outputs), walk.DEEP - 1)
            last = max(stepped.values())
            if not any(f.sequence < last and f.op in COPIES for f in order):
                return
            found = list(_differences(order, stepped))
        if found:
            self._note(noted, found)

    def _note(self, noted: Noted, found: list[tuple[Any, Any, frozenset[int]]]) -> None:
        """What was found, by the place of the copy that comes first: it is told when it is there again."""
        kept = [(node_stacks.stack_of(copy), node_stacks.stack_of(node), leaves) for copy, node, leaves in found]
        known = [(c, n, leaves) for c, n, leaves in kept if c is not None and n is not None]
        if not known:
            return
        copy, node, _ = known[0]
        at = site_of(copy)
        self._counts[at] = self._counts.get(at, 0) + 1
        if self._counts[at] < OFTEN:
            return
        audit = self._audit
        audit.snapshot()
        sign = Sign("own-copy", self._frames(copy), self._frames(node), event=noted[0], count=OFTEN)
        mine = {i for c, _, leaves in known if site_of(c) == at for i in leaves}
        sign.parameters = audit.named(mine)
        call = self._call(noted)
        sign.facts = {"backward": users_line(call)}
        self._report(sign)


def _differences(order: walk.Graph, stepped: dict[int, int]) -> Iterator[tuple[Any, Any, frozenset[int]]]:
    """Each difference between parameters and an older copy of them: the copy's node, its own, ids of the parameters."""
    for found in order:
        pair = _operands(found.node)
        if pair is None:
            continue
        sides = [_Value(*edge) for edge in pair]
        if sides[0].content is None or sides[0].content != sides[1].content:
            continue
        leaves = sides[0].leaves
        if not leaves or not all(i in stepped for i in leaves):
            continue
        step = min(stepped[i] for i in leaves)
        old = [s for s in sides if s.copies and all(n._sequence_nr() < step for n in s.copies)]
        new = [s for s in sides if all(n._sequence_nr() >= step for n in s.nodes)]
        if len(old) == 1 and len(new) == 1 and old[0] is not new[0]:
            yield old[0].copies[0], found.node, leaves


def _operands(node: Any) -> Any:
    """The two edges of a difference or a distance; None for any other node."""
    name = type(node).__name__
    edges = node.next_functions
    if len(edges) != 2 or edges[0][0] is None or edges[1][0] is None:
        return None
    if name in _DISTANCES:
        return edges
    factor = _DIFFERENCES.get(name)
    if factor is None:
        return None
    try:
        return edges if factor * float(node._saved_alpha) == 1.0 else None
    except (AttributeError, TypeError, RuntimeError):
        return None


class _Value:
    """What an operand consists of. ``content`` is equal for equal elements of equal parameters, None for anything but
    copies and views of them; ``copies`` are its nodes that copied, the last one first, ``nodes`` all of its nodes."""

    def __init__(self, node: Any, number: int) -> None:
        self.nodes: list[Any] = []
        self.copies: list[Any] = []
        self._ids: set[int] = set()
        self.content = self._read(node, number, 0)
        self.leaves = frozenset(self._ids)

    def _read(self, node: Any, number: int, depth: int) -> Any:
        if node is None or number != 0 or depth > DEEPEST or len(self.nodes) > WIDEST:
            return None
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            self._ids.add(id(leaf))
            return id(leaf)
        name = type(node).__name__
        if name not in COPIES and name not in VIEWS:
            return None
        self.nodes.append(node)
        if name in COPIES:
            self.copies.append(node)
        inside = tuple(self._read(n, i, depth + 1) for n, i in node.next_functions)
        if not inside or None in inside:
            return None
        return inside[0] if name in _SAME else (name, _setting(node), inside)


def _setting(node: Any) -> str:
    """The shape of what a node has made and the numbers that it was made by."""
    cls = type(node)
    names = _settings.get(cls)
    if names is None:
        every = set(dir(cls))
        names = tuple(sorted(a for a in every if a.startswith("_saved_") and "_raw" + a not in every))
        _settings[cls] = names
    shapes = [tuple(m.shape) for m in getattr(node, "_input_metadata", ())]
    return repr((shapes, [getattr(node, name) for name in names]))
