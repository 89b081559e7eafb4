"""Other places at which the loss of a mended cut loses its graph: mended with it, or left as they are."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.program.bindings import frame_of, tree
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost
from graphdoc.source.paths import covers

_LEFT = ("detach", "missing-create-graph")
"""Of a target under ``no_grad`` and of a value that became a number nobody asks; these stand where they do by a word of
the program, and whether that was meant for this loss no run tells."""


def handed_on_together(program: Program, cut: Cut) -> list[Cut]:
    """The other cuts of the same operation that stand beside this one as elements of one tuple.

    ``return mean.detach(), spread.detach()`` takes nothing apart that was meant apart: one purpose (the values of a
    function that is used elsewhere, too) stands behind them all. Only those of what an optimizer is to train.
    """
    at = innermost(cut.stack)
    found = [(c, f) for c in program.cuts if c is not cut and (f := innermost(c.stack)) is not None]
    if at is None or not cut.certain:
        return []
    return [
        c
        for c, f in found
        if (c.reason, c.op) == (cut.reason, cut.op)
        and program.owners.holding(c.behind)
        and _elements_of_one(program.sources, at, f)
    ]


def copied_beside(program: Program, cut: Cut) -> list[Cut]:
    """The other places at which this loss takes values of the same parameters by the same operation out of their
    tensors: where one is mended, all of them are to be. Values of others (a baseline) may be meant as numbers."""
    at = innermost(cut.stack)
    spots = {at.extent} if at is not None else set()
    found: list[Cut] = []
    for c in program.cuts if at is not None and cut.certain else ():
        place = innermost(c.stack)
        if place is None or place.extent in spots or not c.certain or (c.reason, c.op) != (cut.reason, cut.op):
            continue
        if program.owners.holding(c.behind) and set(c.behind) == set(cut.behind):
            spots.add(place.extent)
            found.append(c)
    return found


def left_cut(program: Program, mended: Sequence[Cut]) -> list[Cut]:
    """The cuts that a loss keeps where these are mended, of what its own optimizer is to train."""
    spots = {f.extent for c in mended if (f := innermost(c.stack)) is not None}
    trained = program.trained
    return [
        c
        for c in program.cuts
        if c.certain
        and c.reason in _LEFT
        and not any(c is m for m in mended)
        and (f := innermost(c.stack)) is not None
        and f.extent not in spots
        and (set(c.behind) & set(trained) if trained else program.owners.holding(c.behind))
    ]


def _elements_of_one(sources: SourceTexts, one: Frame, other: Frame) -> bool:
    if one.file != other.file or one.extent == other.extent:
        return False
    root = tree(sources, one.file)
    for node in ast.walk(root) if root is not None else ():
        if isinstance(node, ast.Tuple) and covers(node, one.line) and covers(node, other.line):
            first, second = (_element(sources, node, f) for f in (one, other))
            if first is not None and second is not None and first is not second:
                return True
    return False


def _element(sources: SourceTexts, node: ast.Tuple, frame: Frame) -> ast.expr | None:
    """The element of a tuple that a place stands in."""
    for e in node.elts:
        at = frame_of(sources, frame.file, e)
        if (at.line, at.column) <= (frame.line, frame.column) < (at.end_line, at.end_column):
            return e
    return None
