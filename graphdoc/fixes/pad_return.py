"""A custom Function's backward returns one gradient for each input: ``return g`` → ``return g, None``.

Args:
    place: the ``return`` statement, or the backward function (then every return in it).
    count: how many values are to be returned.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import add_members, instead, write
from graphdoc.source.module import Function, Source
from graphdoc.source.places import Edit
from graphdoc.source.scopes import own_nodes

KIND = "pad_return"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    count = int(required(args, "count"))
    returns = [node] if isinstance(node, ast.Return) else []
    if isinstance(node, Function):
        returns = [n for n in own_nodes(node) if isinstance(n, ast.Return)]
    edits = [e for r in returns if isinstance(r, ast.Return) for e in _pad(source, r, count)]
    if not edits:
        raise CannotFix("no return there has fewer values than the inputs")
    return edits


def _pad(source: Source, node: ast.Return, count: int) -> list[Edit]:
    value = node.value
    if value is None:
        return instead(source, node, ["return " + ", ".join(["None"] * count)])
    if not isinstance(value, ast.Tuple):
        return [write(source, value, "{it}" + ", None" * (count - 1), it=value)] if count > 1 else []
    if any(isinstance(e, ast.Starred) for e in value.elts) or not value.elts:
        raise CannotFix("the number of returned values cannot be read here")
    return add_members(source, value, ["None"] * (count - len(value.elts)))
