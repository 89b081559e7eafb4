"""The whole picture of one process's run, made of its graph, its calls and its curves."""

from __future__ import annotations

from graphdoc.evidence import Evidence
from graphdoc.picture.canvas import Canvas
from graphdoc.picture.curves import curves
from graphdoc.picture.moments import moments
from graphdoc.picture.sketch import draw_cuts, draw_reach, draw_values
from graphdoc.picture.whole_graph import draw_graph
from graphdoc.program.bad_values import trouble_of
from graphdoc.shapes import Picture


def picture_of(evidence: Evidence) -> Picture:
    """The picture of one process's run. What the Evidence does not hold is said in ``Picture.gaps``, not drawn."""
    canvas = Canvas(evidence)
    if evidence.folded is not None and evidence.folded.parts:
        draw_graph(canvas, evidence.folded)
    elif evidence.cuts:
        draw_cuts(canvas)
    elif not draw_values(canvas):
        draw_reach(canvas)
    told, before = moments(evidence)
    return Picture(
        boxes=tuple(canvas.boxes),
        arrows=tuple(canvas.arrows),
        optimizers=tuple((o.id, o.name or o.type) for o in evidence.optimizers),
        moments=told,
        before=before,
        curves=curves(trouble_of(evidence.signs, evidence.sources, evidence.raised, evidence.packages)),
        nodes=evidence.graph_size,
        gaps=tuple(canvas.gaps),
    )
