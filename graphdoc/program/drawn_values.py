"""Values that are drawn with a probability that is to be learnt: a draw has no derivative, whatever is recorded."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.source.effects import calls_of
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place

_DRAWS = frozenset({"bernoulli", "bernoulli_", "binomial", "multinomial", "poisson"})
"""Draws of whole numbers, whose result has no graph though their argument has one."""


def drawn_within(sources: SourceTexts, frame: Frame) -> tuple[str, str] | None:
    """A name that the expression at a place reads and that its function draws before, and the call that draws it.

    Not where the call is given constants alone: then nothing is to be learnt through it.
    """
    source = Source(frame.file, sources.get(frame.file, ""))
    node = source.node_expression(Place.of(frame))
    within = source.node_function(node) if node is not None else None
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node is not None else set()
    for name in sorted(names):
        before = [s for s in source.node_assignments(name, within) if s.lineno < frame.line]
        for call in calls_of(before[-1]) if before else ():
            given = [n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a)]
            if last_word(call.func) in _DRAWS and any(isinstance(n, ast.Name | ast.Attribute) for n in given):
                return name, last_word(call.func)
    return None
