"""GD1: trying to backward through the graph a second time, and how its causes are told."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoc.finding import Finding
from graphdoc.model import Confidence, Span
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.remedies.reused_graph import remedies_for
from graphdoc.story.older_graph import calls_of, facts_of, flow


def told(
    program: Program,
    reuse: Reuse,
    weight: tuple[float, Confidence],
    title: str,
    text: str,
    causes: Iterable[Span],
    because: str,
) -> Finding:
    """The places of the cause, then how the older part comes into the loss, and the calls that meet in it."""
    spans = (*causes, *flow(reuse), *calls_of(program, reuse))
    return Finding(*weight, title, text, spans, facts_of(program, reuse), remedies_for(program, reuse), because=because)
