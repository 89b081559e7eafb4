"""Telling of a failure within a block that keeps operations from being recorded, where nothing more was seen."""

from __future__ import annotations

from graphdoc.finding import Finding
from graphdoc.program.mode_under_way import mode_under_way
from graphdoc.program.observed import Program
from graphdoc.program.spans import span, where
from graphdoc.story.missing_graph import without_graph


def told_under_way(program: Program) -> Finding | None:
    """The block, for a loss without a graph; None where none is under way, or where a cut was seen."""
    if not without_graph(program.raised) or program.cuts:
        return None
    found = mode_under_way(program.sources, program.evidence.extras, program.raised)
    if found is None:
        return None
    mode, at = found
    ends = "`torch.inference_mode(False)`" if mode == "inference_mode" else "`torch.enable_grad()`"
    return Finding(
        0.7,
        "likely",
        f"the loss is computed within a block of `{mode}`, which keeps its graph from being recorded",
        f"The block that {where(at)} enters is still under way where this fails. Nothing that runs in it is recorded, "
        f"unless {ends} is entered further in. Run this part outside of the block, or leave the derivative out there.",
        (
            span("cause", at, f"`{mode}` is switched on here, and on still when this fails", program.sources),
            *program.raised_span("the loss that arrives here has no graph"),
        ),
        because=f"{where(at)} has switched `{mode}` on, and the failing line runs within that block",
    )
