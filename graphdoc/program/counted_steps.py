"""Steps that a remainder decides on: every fourth batch, say."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import function_around, tree
from graphdoc.source.paths import covers


def is_counted(sources: SourceTexts, step: Frame, others: list[Frame]) -> bool:
    """Whether an ``if`` with ``%`` in its test decides on the step, and on none of the other places."""
    root = tree(sources, step.file)
    if root is None:
        return False
    scope = function_around(root, step.line) or root
    around = [n for n in ast.walk(scope) if isinstance(n, ast.If) and any(covers(s, step.line) for s in n.body)]
    outside = [n for n in around if not any(f.file == step.file and covers(n, f.line) for f in others)]
    return any(isinstance(op, ast.BinOp) and isinstance(op.op, ast.Mod) for n in outside for op in ast.walk(n.test))
