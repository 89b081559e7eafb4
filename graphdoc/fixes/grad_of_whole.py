"""Ask for the gradient of the whole tensor and take the part of it that is wanted.

``torch.autograd.grad(u, x[:, 0:1])[0]`` becomes ``torch.autograd.grad(u, x)[0][:, 0:1]``: the part is a new tensor, of
which nothing was computed.

Args:
    place: the call of ``torch.autograd.grad``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import copied, write
from graphdoc.source.paths import is_path
from graphdoc.source.places import Edit

KIND = "grad_of_whole"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    given = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "inputs"), None)
    if last_name(node) != "grad" or not isinstance(given, ast.Subscript) or not is_path(given.value):
        raise CannotFix("no torch.autograd.grad by a part of a tensor stands there")
    above = source.parents.get(node)
    first = above.slice if isinstance(above, ast.Subscript) and above.value is node else None
    if not isinstance(above, ast.Subscript) or not isinstance(first, ast.Constant) or first.value != 0:
        raise CannotFix("the gradient is not taken out of the result where it is asked for")
    whole = copied(source, above, [write(source, given, "{tensor}", tensor=given.value)])
    part = copied(source, given, [write(source, given.value, "{whole}", whole=whole)])
    return [write(source, above, "{part}", part=part)]
