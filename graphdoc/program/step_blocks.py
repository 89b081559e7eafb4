"""Where a value can be cut behind an optimizer's step: the place in its block, and what starts it again there."""

from __future__ import annotations

import ast

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program.bindings import frame_of, function_around, tree
from graphdoc.program.container_entries import statements
from graphdoc.source.paths import covers, pairs


def behind_the_step(sources: SourceTexts, events: list[Event], frame: Frame) -> tuple[Frame, Frame]:
    """The statement of this function behind which an iteration's graph has done its work, and the line of the step.

    The last optimizer step that this function makes behind the backward call at ``frame``, else the call itself. The
    journal tells where steps were made; where none was seen yet, the source does. The two differ where the step stands
    inside a branch.
    """
    root = tree(sources, frame.file)
    if root is None:
        return frame, frame
    scope: ast.AST = function_around(root, frame.line) or root
    lines = {
        f.line
        for e in events
        if e.kind == "step"
        for f in e.stack
        if f.user and f.file == frame.file and f.function == frame.function
    }
    block = _block_with(scope, frame.line)
    later = [s for s in block if s.lineno > frame.line]
    chosen = [s for s in later if any(covers(s, line) for line in lines)]
    if not chosen:
        chosen = [s for s in later if _calls_step(s)]
    if not chosen:
        return frame, frame
    anchor = frame_of(sources, frame.file, chosen[-1], frame.function)
    inside = [n for n in ast.walk(chosen[-1]) if isinstance(n, ast.stmt) and not isinstance(n, ast.If | ast.With)]
    steps = [n for n in inside if n.lineno in lines] or [n for n in inside if _calls_step(n)]
    return anchor, frame_of(sources, frame.file, steps[-1], frame.function) if steps else anchor


def started_again(sources: SourceTexts, frame: Frame, anchor: Frame, path: str) -> bool:
    """Whether a path may hold a plain start value (``total = 0.0``, ``h = None``) behind the statement at ``anchor``.

    Looked for from the statement at ``frame`` to the end of the anchor, and in the branches on the way.
    """
    root = tree(sources, frame.file)
    scope = (function_around(root, frame.line) or root) if root is not None else None
    last = anchor.end_line or anchor.line
    for s in statements(scope) if scope is not None else ():
        if not frame.line < s.lineno <= last:
            continue
        for target, value in pairs(s):
            if isinstance(value, ast.Constant | ast.List | ast.Dict) and ast.unparse(target) == path:
                return True
    return False


def _block_with(scope: ast.AST, line: int) -> list[ast.stmt]:
    """The innermost list of statements with one that covers the line; a ``with`` around it is looked out of."""
    best: list[ast.stmt] = []
    for node in ast.walk(scope):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and any(isinstance(s, ast.stmt) and covers(s, line) for s in block):
                if isinstance(node, ast.With | ast.If | ast.Try) and best:
                    continue
                best = block
    return best


def _calls_step(statement: ast.stmt) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "step"
        for n in ast.walk(statement)
    )
