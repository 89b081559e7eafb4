"""Whether a program detaches a term of its loss only now and then: while it warms up, or as an option says."""

from __future__ import annotations

import ast

from graphdoc.evidence import Cut, Frame, Sign, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.spans import innermost_user


def detached_by_choice(sources: SourceTexts, cut: Cut, sign: Sign) -> bool:
    """Whether a condition decides that this cut is made, and not whether the term is added at all."""
    cutting, adding = innermost_user(cut.stack), innermost_user(sign.other)
    root = bindings.tree(sources, cutting.file) if cutting is not None else None
    if cutting is None or root is None:
        return False
    scope = bindings.function_around(root, cutting.line) or root
    choices = [n for n in ast.walk(scope) if isinstance(n, ast.If | ast.IfExp) and _spans(n, cutting)]
    return any(adding is None or adding.file != cutting.file or not _spans(n, adding) for n in choices)


def _spans(node: ast.If | ast.IfExp, frame: Frame) -> bool:
    begin = (node.lineno, node.col_offset + 1)
    end = (node.end_lineno or node.lineno, (node.end_col_offset or 0) + 1)
    return begin <= (frame.line, frame.column) < end
