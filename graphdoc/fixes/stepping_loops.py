"""Loops whose rounds differentiate and step: what both kinds of fix that take the steps out of them ask first."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required, statement
from graphdoc.source.effects import method_of
from graphdoc.source.module import Source

CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_"})


def stepping_loop(sources: Sources, args: Args) -> tuple[Source, ast.For, ast.stmt, ast.expr, ast.Call, ast.stmt]:
    """The loop whose body holds ``args["step"]`` behind the call ``args["backward"]``.

    Returns:
        The source, the loop, the step's statement, its optimizer, the backward call, and the statement of the loop's
        body in which that stands.

    Raises:
        CannotFix: there is no such loop.
    """
    source, step = statement(sources, required(args, "step"))
    other, node = call(sources, required(args, "backward"))
    loop = source.parents.get(step)
    method, optimizer = method_of(step)
    if method != "step" or optimizer is None:
        raise CannotFix("the step is part of a larger statement")
    if not isinstance(loop, ast.For) or loop.orelse or other is not source or loop not in source.node_ancestors(node):
        raise CannotFix("the step and the backward call do not stand in one loop")
    own = next((s for s in loop.body if any(n is node for n in ast.walk(s))), None)
    if own is None or source.node_loop(node) is not loop or loop.body.index(own) >= loop.body.index(step):
        raise CannotFix("the step does not stand behind the backward call in the body of the loop")
    return source, loop, step, optimizer, node, own
