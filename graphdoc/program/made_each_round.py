"""Values that every round of the loop around a backward call makes anew, whichever of them its loss then uses."""

from __future__ import annotations

import ast

from graphdoc.evidence import Event, Frame, Node, SourceTexts
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.loops import node_loop_of
from graphdoc.program.spans import in_function
from graphdoc.source.paths import covers

_PLAIN = ("torch/nn/functional.py", "torch/functional.py", "torch/_tensor.py")


def made_each_round(sources: SourceTexts, producer: Node | None, failing: Event) -> bool:
    """Whether the round that failed has surely made such a value as well, ahead of its call.

    The line that leads to its making stands in the body of the loop around the call, under no condition; so do the
    lines below it in their functions, none of which may end before or keep its result. What a package computes below
    them it may keep (``parametrize.cached``); of a layer's and a function's own code that is known not to be so.
    """
    if producer is None or not _computes_anew(producer.stack):
        return False
    made = [f for f in producer.stack if f.user]
    for call in reversed([f for f in failing.stack if f.user]):
        loop = node_loop_of(sources, call)
        level = next((i for i, f in enumerate(made) if (f.file, f.function) == (call.file, call.function)), None)
        if loop is None:
            continue
        if level is None or not covers(loop, made[level].line) or made[level].line >= call.line:
            return False
        inner = all(_always_runs(sources, f) for f in made[level + 1 :])
        return inner and _is_plain(loop.body, made[level].line)
    return False


def in_loop_of(sources: SourceTexts, one: Event, other: Event) -> bool:
    """Whether another call is made in the innermost loop of the user's around a call, and in no other one behind it."""
    users = [f for f in other.stack if f.user]
    for call in reversed([f for f in one.stack if f.user]):
        loop = node_loop_of(sources, call)
        if loop is not None:
            at = in_function(users, call)
            return at is not None and covers(loop, at.line)
    return False


def made_outside_loops(sources: SourceTexts, producer: Node | None, failing: Event) -> bool:
    """Whether a value was made by a line that stands in no loop of the user's around the failing call."""
    made = [f for f in producer.stack if f.user] if producer is not None else []
    for call in (f for f in failing.stack if f.user):
        loop, at = node_loop_of(sources, call), in_function(made, call)
        if loop is not None and at is not None and covers(loop, at.line):
            return False
    return bool(made)


def _computes_anew(stack: list[Frame]) -> bool:
    """Whether below the user's innermost line there is nothing but PyTorch's layers and functions."""
    last = max((i for i, f in enumerate(stack) if f.user), default=-1)
    files = [f.file.replace("\\", "/") for f in stack[last + 1 :]]
    return all("torch/nn/modules/" in file or file.endswith(_PLAIN) for file in files)


def _always_runs(sources: SourceTexts, frame: Frame) -> bool:
    """Whether each call of the function around a place comes to it and computes it again."""
    root = tree(sources, frame.file)
    function = function_around(root, frame.line) if root is not None else None
    if function is None or function.decorator_list:
        return False
    return _is_plain(function.body, frame.line)


def _is_plain(block: list[ast.stmt], line: int) -> bool:
    """Whether a line stands in a simple statement of the block itself, and nothing may leave the block before it."""
    at = next((i for i, s in enumerate(block) if covers(s, line)), None)
    if at is None or not isinstance(block[at], ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return):
        return False
    computed = [n for n in ast.walk(block[at]) if isinstance(n, ast.IfExp | ast.BoolOp | ast.Lambda | ast.NamedExpr)]
    leaving = (ast.Return, ast.Break, ast.Continue, ast.Yield)
    return not computed and not any(isinstance(n, leaving) for s in block[:at] for n in ast.walk(s))
