"""Where an array that was taken out of a tensor becomes a tensor again."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, text_of
from graphdoc.source.module import Source
from graphdoc.source.paths import covers, key, last_word, targets_of
from graphdoc.source.places import Place

_MAKES = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "DoubleTensor"})
_DEEPEST = 3
"""Functions, from the one that makes the array outwards, that hand it on by what they return."""


def tensor_again(sources: SourceTexts, stack: Sequence[Frame]) -> Frame | None:
    """The call that makes a tensor of an array, or of what NumPy's functions and operators make of it, in the function
    that took it or in one that is given it back. Not one that is an index, nor behind a function of the program's own
    (what an environment answers to an action is no part of the action).

    Args:
        stack: that of the conversion, the innermost frame last.
    """
    for frame in [f for f in reversed(stack) if f.user][:_DEEPEST]:
        source = Source(frame.file, sources.get(frame.file, ""))
        start = source.node_expression(Place.of(frame))
        if source.tree is None or start is None:
            return None
        scope = function_around(source.tree, frame.line) or source.tree
        found, returned = _follow(source, scope, start)
        if found is not None:
            return frame_of(sources, frame.file, found, frame.function)
        if not returned:
            return None
    return None


def _follow(source: Source, scope: ast.AST, start: ast.expr) -> tuple[ast.expr | None, bool]:
    """The call that makes a tensor of it; and whether the function returns it."""
    todo: list[ast.expr] = [start]
    seen: set[str] = set()
    while todo:
        node = todo.pop()
        parent = source.parents.get(node)
        while isinstance(parent, ast.expr | ast.keyword):
            if isinstance(parent, ast.Call) and node is not parent.func:
                if last_word(parent.func) in _MAKES:
                    return (parent, False) if not _is_index(source, parent) else (None, False)
                if not _is_numpy(parent):
                    break
            node, parent = parent, source.parents.get(parent)  # type: ignore[assignment]
        if isinstance(parent, ast.Return):
            return None, True
        if not isinstance(parent, ast.Assign | ast.AugAssign | ast.AnnAssign):
            continue
        for name in {key(t).partition("[")[0] for t in targets_of(parent)} - seen:
            seen.add(name)
            todo += [
                n
                for n in ast.walk(scope)
                if isinstance(n, ast.Name | ast.Attribute)
                and isinstance(n.ctx, ast.Load)
                and text_of(n) == name
                and not covers(parent, n.lineno)
            ]
    return None, False


def _is_numpy(call: ast.Call) -> bool:
    """Whether a call is of NumPy, or of a built-in that makes a number or a list."""
    text = text_of(call.func)
    return text.partition(".")[0] in ("np", "numpy") or text in ("float", "list", "tuple", "sum", "max", "min", "abs")


def _is_index(source: Source, node: ast.expr) -> bool:
    above: ast.AST | None = source.parents.get(node)
    while isinstance(above, ast.expr):
        if isinstance(above, ast.Subscript):
            return True
        above = source.parents.get(above)
    return False
