"""Let an input require gradients: ``x.requires_grad_()``.

Args:
    place: the statement that binds the name (it comes behind), a function with that parameter (it comes first in the
        body), any other statement (it comes before), or, without ``name``, the expression that makes the tensor.
    name: the tensor's name or path.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required, statement
from graphdoc.fixes.structures import convert_expression
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Function
from graphdoc.source.paths import is_path, parse_expression, same, targets_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import parameters

KIND = "require_input_grad"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    name = args.get("name")
    if not name:
        source, node = expression(sources, required(args, "place"))
        return convert_expression(source, node, "tensor", "requires_grad_")
    source, owner = statement(sources, required(args, "place"))
    wanted = parse_expression(str(name))
    if wanted is None or not is_path(wanted):
        raise CannotFix(f"{name} is no name or attribute")
    text = f"{name}.requires_grad_()"
    if any(text in ast.unparse(s) for s in (source.node_block(owner) or ([], 0))[0] if not hasattr(s, "body")):
        raise CannotFix(f"{name} already requires gradients there")
    if isinstance(owner, Function) and str(name) in parameters(owner):
        return insert_before(source, first_statement(owner), [text])
    if any(same(t, wanted) for t in targets_of(owner)):
        if isinstance(owner, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith):
            return insert_before(source, owner.body[0], [text])
        return insert_after(source, owner, [text])
    return insert_before(source, owner, [text])
