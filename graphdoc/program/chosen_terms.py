"""Whether a program detaches a term of its loss only now and then: while it warms up, or as an option says."""

from __future__ import annotations

import ast

from graphdoc.evidence import Cut, Frame, Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import innermost_user
from graphdoc.source.paths import key, targets_of


def detached_by_choice(sources: SourceTexts, cut: Cut, sign: Sign) -> bool:
    """Whether a condition decides that this cut is made, and not whether the term is there at all."""
    cutting, adding = innermost_user(cut.stack), innermost_user(sign.other)
    root = bindings.tree(sources, cutting.file) if cutting is not None else None
    if cutting is None or root is None:
        return False
    scope = bindings.function_around(root, cutting.line) or root
    choices = [n for n in ast.walk(scope) if isinstance(n, ast.If | ast.IfExp) and _spans(n, cutting)]
    apart = [n for n in choices if adding is None or adding.file != cutting.file or not _spans(n, adding)]
    return any(isinstance(n, ast.IfExp) or _has_another_way(n, cutting) for n in apart)


def _has_another_way(choice: ast.If, cutting: Frame) -> bool:
    """Whether the value that is cut here goes on with its graph where the condition says otherwise: the other branch
    gives the same name, the name itself is replaced by what is left of it, or what follows is left out here."""
    one, other = choice.body, choice.orelse
    if not any(_spans(s, cutting) for s in one):
        one, other = other, one
    if any(isinstance(n, ast.Return | ast.Yield) for s in one for n in ast.walk(s)):
        return True
    around = [n for s in one for n in ast.walk(s) if isinstance(n, ast.stmt | ast.expr) and _spans(n, cutting)]
    bound = {key(t) for n in around for t in targets_of(n)}
    there = {key(t) for s in other for n in ast.walk(s) for t in targets_of(n)}
    return bool(bound & (there | {key(n.value) for n in around if isinstance(n, ast.Attribute)}))


def _spans(node: ast.stmt | ast.expr, frame: Frame) -> bool:
    begin = (node.lineno, node.col_offset + 1)
    end = (node.end_lineno or node.lineno, (node.end_col_offset or 0) + 1)
    return begin <= (frame.line, frame.column) < end
