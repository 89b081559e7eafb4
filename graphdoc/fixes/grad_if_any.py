"""Use a gradient only where there is one.

``total += p.grad.norm()`` becomes ``total += (torch.zeros_like(p) if p.grad is None else p.grad).norm()``;
``p.grad.clamp_(-1, 1)`` is put under ``if p.grad is not None:``; in front of ``p.grad.data = g`` and ``p.grad += g``
zeros are set where there is none.

Args:
    place: the expression ``p.grad``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, place, required, source_of
from graphdoc.source.edits import insert_before, wrap, write, written
from graphdoc.source.gradient_uses import Use, use_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "grad_if_any"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    at = place(required(args, "place"))
    source = source_of(sources, at)
    node = source.node_expression(at)
    use = use_of(source, node) if node is not None else None
    owner = source.node_statement(at)
    if use is None or owner is None or not isinstance(node, ast.Attribute):
        raise CannotFix("what is done there with the gradient cannot be done to some of them only")
    if use is Use.SCALED:
        return wrap(source, [owner], f"if {source.segment(node)} is not None:")
    zeros = name_for(source, "torch.zeros_like", node, "import torch")
    if use is Use.GIVEN:
        lines = f"if {{grad}} is None:\n    {{grad}} = {zeros.text}({{tensor}})"
        return [*insert_before(source, owner, [written(source, lines, grad=node, tensor=node.value)]), *zeros.edits]
    either = f"{zeros.text}({{tensor}}) if {{grad}} is None else {{grad}}"
    return [write(source, node, either, grad=node, tensor=node.value), *zeros.edits]
