"""Register layers that sit in a plain list or dict: ``[nn.Linear(2, 2)]`` → ``nn.ModuleList([nn.Linear(2, 2)])``.

Args:
    place: the list (dict, comprehension), or the assignment of it.
    parameters: True for ``nn.ParameterList`` and ``nn.ParameterDict``.
    mapping: whether it is a dict, where the expression does not tell.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, kind, last_name, required
from graphdoc.source.edits import write
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

_REGISTERED = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential")


@kind("module_list")
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    if last_name(node) in _REGISTERED:
        raise CannotFix("the layers are registered already")
    if last_name(node) == "defaultdict":
        raise CannotFix("a ModuleDict makes no entries by itself")
    plain = isinstance(node, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)
    mapping = isinstance(node, ast.Dict | ast.DictComp) or last_name(node) in ("dict", "OrderedDict")
    mapping = mapping or (bool(args.get("mapping")) and not plain)
    group = "Parameter" if args.get("parameters") else "Module"
    name = name_for(source, f"torch.nn.{group}{'Dict' if mapping else 'List'}", node, "import torch")
    return [write(source, node, "{group}({layers})", group=name.text, layers=node), *name.edits]
