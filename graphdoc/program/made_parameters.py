"""Values that are computed from a parameter made in the same expression: ``torch.exp(nn.Parameter(...))``."""

from __future__ import annotations

import ast

from graphdoc.evidence import Node, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import node_with
from graphdoc.program.bindings import call_at
from graphdoc.program.spans import innermost_user
from graphdoc.source.paths import last_word


def makes_parameter(sources: SourceTexts, nodes: list[Node], carries: list[OlderEdge]) -> bool:
    """Whether any of the values comes straight from a call around ``Parameter(...)``.

    Such a parameter has no name and is in no optimizer, and yet it was written to be trained.
    """
    producers = (node_with(nodes, c.producer) for c in carries)
    calls = (call_at(sources, innermost_user(p.stack)) for p in producers if p is not None)
    return any(
        isinstance(n, ast.Call) and n is not call and last_word(n.func) == "Parameter"
        for call in calls
        if call is not None
        for n in ast.walk(call)
    )
