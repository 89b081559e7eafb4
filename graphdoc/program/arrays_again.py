"""Where an array that was taken out of a tensor becomes a tensor again, and whether it goes into a loss."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, text_of
from graphdoc.source.module import Source
from graphdoc.source.paths import covers, key, last_word, targets_of
from graphdoc.source.places import Place

_MAKES = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "DoubleTensor"})
_CHOOSES = frozenset({"where", "nonzero", "unique", "searchsorted", "digitize", "shape", "size", "len", "dtype"})
_Ends = Callable[[ast.AST, ast.AST], bool]
_Passes = Callable[[ast.Call], bool]
_DEEPEST = 3
"""Functions, from the one that makes the array outwards, that hand it on by what they return."""


def tensor_again(sources: SourceTexts, stack: Sequence[Frame]) -> Frame | None:
    """The call that makes a tensor of an array, or of what NumPy's functions and operators make of it, in the function
    that took it or in one that is given it back. Not one that is an index, nor behind a function of the program's own
    (what an environment answers to an action is no part of the action).

    Args:
        stack: that of the conversion, the innermost frame last.
    """
    return _handed_on(sources, [f for f in stack if f.user][-_DEEPEST:], _made, _is_numpy)


def in_the_loss(sources: SourceTexts, stack: Sequence[Frame]) -> Frame | None:
    """The call of ``backward`` on what was computed with an array or number, by operators and by functions of NumPy,
    PyTorch and Python: a detached one is a constant there. Not by what it only chooses (an index, a comparison).

    Args:
        stack: that of the conversion, the innermost frame last.
    """
    return _handed_on(sources, [f for f in stack if f.user], _differentiated, _computes)


def _handed_on(sources: SourceTexts, stack: Sequence[Frame], ends: _Ends, passes: _Passes) -> Frame | None:
    for frame in reversed(stack):
        source = Source(frame.file, sources.get(frame.file, ""))
        start = source.node_expression(Place.of(frame))
        if source.tree is None or start is None:
            return None
        scope = function_around(source.tree, frame.line) or source.tree
        found, returned = _follow(source, scope, start, ends, passes)
        if found is not None:
            return frame_of(sources, frame.file, found, frame.function)
        if not returned:
            return None
    return None


def _follow(
    source: Source, scope: ast.AST, start: ast.expr, ends: _Ends, passes: _Passes
) -> tuple[ast.expr | None, bool]:
    """The call that it ends in; and whether the function returns it."""
    todo: list[ast.expr] = [start]
    seen: set[str] = set()
    while todo:
        node = todo.pop()
        parent = source.parents.get(node)
        while isinstance(parent, ast.expr | ast.keyword):
            if isinstance(parent, ast.expr) and ends(parent, node):
                return (parent, False) if not _is_index(source, parent) else (None, False)
            if isinstance(parent, ast.Call) and node is not parent.func and not passes(parent):
                break
            if passes is _computes and _only_chooses(parent, node):
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


def _made(call: ast.AST, node: ast.AST) -> bool:
    return isinstance(call, ast.Call) and node is not call.func and last_word(call.func) in _MAKES


def _differentiated(method: ast.AST, node: ast.AST) -> bool:
    return isinstance(method, ast.Attribute) and method.attr == "backward" and node is method.value


def _computes(call: ast.Call) -> bool:
    """Whether the result of a call is made of the values that it is given: one of a library of numbers, by its name."""
    word = last_word(call.func)
    known = text_of(call.func).partition(".")[0] in ("torch", "F", "nn", "math")
    return (_is_numpy(call) or known) and not word.startswith("arg") and word not in _CHOOSES


def _only_chooses(parent: ast.AST, node: ast.AST) -> bool:
    """Whether a value is read here to decide on others, and not computed with."""
    if isinstance(parent, ast.Attribute):
        return parent.attr.startswith("arg") or parent.attr in _CHOOSES
    return isinstance(parent, ast.Compare) or (
        isinstance(parent, ast.Subscript | ast.IfExp) and not _is_value(parent, node)
    )


def _is_value(parent: ast.Subscript | ast.IfExp, node: ast.AST) -> bool:
    return node is parent.value if isinstance(parent, ast.Subscript) else node is not parent.test


def _is_index(source: Source, node: ast.expr) -> bool:
    above: ast.AST | None = source.parents.get(node)
    while isinstance(above, ast.expr):
        if isinstance(above, ast.Subscript):
            return True
        above = source.parents.get(above)
    return False
