"""Steps that are left out where a gradient or a loss is not finite: what stands beside such a step runs as rarely."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import function_around, tree
from graphdoc.source.effects import calls_of
from graphdoc.source.paths import covers, last_word

_LOOKS = frozenset({"isfinite", "isnan", "isinf"})


def is_guarded(sources: SourceTexts, step: Frame, backward: Frame) -> bool:
    """Whether the step's function decides on the step by nothing but finite numbers, and not on the backward call.

    Where something else decides on it too, gradients may be collected over several calls.
    """
    root = tree(sources, step.file)
    if root is None:
        return False
    scope = function_around(root, step.line) or root
    around = [n for n in ast.walk(scope) if isinstance(n, ast.If) and covers(n, step.line)]
    if step.file == backward.file:
        around = [n for n in around if not covers(n, backward.line)]
    return bool(around) and all(any(last_word(c.func) in _LOOKS for c in calls_of(n.test)) for n in around)
