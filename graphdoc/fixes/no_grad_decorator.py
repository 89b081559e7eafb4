"""Run a whole function without gradients: ``@torch.no_grad()`` directly above its ``def``.

Args:
    place: the function, or anything in it.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import decorate
from graphdoc.source.module import Function
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "no_grad_decorator"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    function = node if isinstance(node, Function) else source.node_function(node)
    if function is None:
        raise CannotFix("no function stands around that place")
    if any("no_grad" in ast.unparse(d) for d in function.decorator_list):
        raise CannotFix(f"{function.name} already runs without gradients")
    if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(function)):
        raise CannotFix(f"{function.name} is a generator")
    name = name_for(source, "torch.no_grad", function, "import torch")
    return [*decorate(source, function, f"{name.text}()"), *name.edits]
