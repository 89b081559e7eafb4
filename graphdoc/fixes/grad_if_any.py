"""Use a gradient only where there is one.

``total += p.grad.norm()`` becomes ``total += (torch.zeros_like(p) if p.grad is None else p.grad).norm()``;
``p.grad.clamp_(-1, 1)`` is put under ``if p.grad is not None:``; ``p.grad.data = g`` becomes ``p.grad = g.detach()``.

Args:
    place: the expression ``p.grad``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, replace, required
from graphdoc.source.blocks import wrap
from graphdoc.source.places import Edit
from graphdoc.source.read_gradients import Use, use_of
from graphdoc.source.scopes import name_for

KIND = "grad_if_any"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    use = use_of(source, node)
    if use is None or not isinstance(node, ast.Attribute):
        raise CannotFix("what is done there with the gradient cannot be done to some of them only")
    grad, tensor = source.segment(node), source.segment(node.value)
    if use is Use.VALUE:
        zeros = name_for(source, "torch.zeros_like", node, "import torch")
        return [replace(source, node, f"({zeros.text}({tensor}) if {grad} is None else {grad})"), *zeros.edits]
    owner = source.node_statement(source.place(node))
    assert owner is not None
    if use is Use.CHANGE:
        return wrap(source, [owner], f"if {grad} is not None:")
    assert isinstance(owner, ast.Assign)
    plain = isinstance(owner.value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    value = source.segment(owner.value)
    detached = f"{value}.detach()" if plain else f"({value}).detach()"
    return [replace(source, owner.targets[0], grad), replace(source, owner.value, detached)]
