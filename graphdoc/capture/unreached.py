"""The input whose gradient was asked for and that no way leads to: when it was made, and of what."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from graphdoc.capture.facts import grad_fn_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.walk import DEEP, NO_SEQUENCE, nodes_behind

if TYPE_CHECKING:
    from graphdoc.capture.autopsy import Autopsy
    from graphdoc.evidence import Evidence

SAID = "appears to not have been used in the graph"


def fill(evidence: Evidence, autopsy: Autopsy, inputs: Sequence[Any]) -> None:
    """Tell of the first of the inputs of a ``grad`` call that the graph of the autopsy does not lead to.

    Nothing is told where the graph was looked at in part.
    """
    if len(autopsy.order) >= autopsy.limit:
        return
    nodes, leaves = _reached(autopsy)
    tensors = ((i, t) for i, t in enumerate(inputs) if hasattr(t, "grad_fn"))
    missed = next(((i, t) for i, t in tensors if not _is_reached(t, nodes, leaves)), None)
    if missed is not None:
        autopsy.missed = missed[1]
        evidence.extras["unreached"] = _told(autopsy, *missed)


def _told(autopsy: Autopsy, index: int, tensor: Any) -> dict[str, Any]:
    """What the Evidence says of it.

    ``index``; ``sequence`` of the node that made it (-1: a leaf); its ``stack``; ``op``; ``shares``: what it was made
    of is in the graph.
    """
    node = grad_fn_of(tensor)
    if node is None:
        return {"index": index, "sequence": -1, "op": "", "stack": [], "shares": False}
    nodes, leaves = _reached(autopsy)
    behind = islice(nodes_behind([node]), DEEP - 1)
    return {
        "index": index,
        "sequence": int(node._sequence_nr()),
        "op": str(node.name()),
        "stack": [vars(f) for f in frames_of(autopsy.raw_stack(node), autopsy.cwd)],
        "shares": any(n in nodes or id(getattr(n, "variable", None)) in leaves for n, _ in behind),
    }


def _reached(autopsy: Autopsy) -> tuple[set[Any], set[int]]:
    """The nodes of the graph that made something, and the ids of its leaves."""
    made = {f.node for f in autopsy.order if f.sequence < NO_SEQUENCE}
    return made, {id(f.leaf) for f in autopsy.order if f.leaf is not None}


def _is_reached(tensor: Any, nodes: set[Any], leaves: set[int]) -> bool:
    node = grad_fn_of(tensor)
    return node in nodes if node is not None else id(tensor) in leaves
