"""Register a tensor that is to learn as a parameter: ``register_buffer("b", torch.zeros(3, requires_grad=True))`` →
``register_parameter("b", nn.Parameter(torch.zeros(3)))``.

Args:
    place: the call of ``register_buffer``.
    made: the expression that makes the tensor.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, expression, kind, required
from graphdoc.source.edits import drop_arguments, rename, write
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for


@kind("register_parameter")
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, registering = call(sources, required(args, "place"))
    other, made = expression(sources, required(args, "made"))
    if not isinstance(registering.func, ast.Attribute) or registering.func.attr != "register_buffer":
        raise CannotFix("what registers the buffer is not written out")
    if other is not source:
        raise CannotFix("the tensor is made in another file")
    name = name_for(source, "torch.nn.Parameter", made, "import torch")
    flag = drop_arguments(source, made, lambda _, k: k == "requires_grad") if isinstance(made, ast.Call) else []
    return [
        rename(source, registering.func, "register_parameter"),
        *drop_arguments(source, registering, lambda i, k: k == "persistent" or (k is None and i == 2)),
        *flag,
        write(source, made, "{parameter}({tensor})", parameter=name.text, tensor=made),
        *name.edits,
    ]
