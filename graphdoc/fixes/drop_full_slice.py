"""Write without the ``[:]`` that selects everything: ``x[a:b][:] += y`` → ``x[a:b] += y``.

Args:
    place: the augmented assignment.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import write
from graphdoc.source.places import Edit
from graphdoc.source.rows import is_full

KIND = "drop_full_slice"
KEEPS_NUMBERS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    target = owner.target if isinstance(owner, ast.AugAssign) else None
    if not isinstance(target, ast.Subscript) or not is_full(target.slice):
        raise CannotFix("no full slice is written there")
    inner: ast.expr = target
    while isinstance(inner, ast.Subscript) and is_full(inner.slice):
        inner = inner.value
    if not isinstance(inner, ast.Subscript):
        raise CannotFix("without the slice the name itself would be bound to a new tensor where it is no tensor yet")
    return [write(source, target, "{inner}", inner=inner)]
