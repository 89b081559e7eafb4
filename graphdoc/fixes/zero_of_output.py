"""Start a loss from a zero that has a graph: ``torch.zeros(())`` → ``output.sum() * 0.0``.

Args:
    place: the constant.
    name: the tensor that the zero is built from, or a call that gives one number; it must be known there.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import write
from graphdoc.source.paths import is_path, parse_expression
from graphdoc.source.places import Edit

KIND = "zero_of_output"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    name = str(required(args, "name"))
    value = parse_expression(name)
    if value is None or not (is_path(value) or isinstance(value, ast.Call)):
        raise CannotFix(f"{name} is no name, attribute or call")
    return [write(source, node, f"{name}.sum() * 0.0" if is_path(value) else f"{name} * 0.0")]
