"""The whole picture of one process's run, made of its graph, its calls and its curves."""

from __future__ import annotations

from graphdoc.evidence import Evidence
from graphdoc.picture.curves import curves
from graphdoc.picture.graph import Graph
from graphdoc.picture.moments import moments
from graphdoc.picture.shapes import Picture


def picture_of(evidence: Evidence) -> Picture:
    """The picture of one process's run. What the Evidence does not hold is said in ``Picture.gaps``, not drawn."""
    graph = Graph(evidence)
    told, before = moments(evidence)
    return Picture(
        boxes=tuple(graph.boxes),
        arrows=tuple(graph.arrows),
        optimizers=tuple((o.id, o.name or o.type) for o in evidence.optimizers),
        moments=told,
        before=before,
        curves=curves(evidence),
        nodes=evidence.graph_size,
        gaps=tuple(graph.gaps),
    )
