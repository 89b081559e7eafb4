"""Register what a module is to hold: layers in a plain list or dict, a tensor that is to learn; hand over all of it."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, expression, kind, last_name, required
from graphdoc.source.edits import drop_arguments, rename, write
from graphdoc.source.module import Source, is_method_call
from graphdoc.source.paths import same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

_REGISTERED = ("ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential")


@kind("module_list", expression)
def module_list(source: Source, node: ast.expr, args: Args) -> list[Edit]:
    """Register layers that sit in a plain list or dict: ``[nn.Linear(2, 2)]`` → ``nn.ModuleList([nn.Linear(2, 2)])``.

    Args:
        place: the list (dict, comprehension), or the assignment of it.
        parameters: True for ``nn.ParameterList`` and ``nn.ParameterDict``.
        mapping: whether it is a dict, where the expression does not tell.
    """
    if last_name(node) in _REGISTERED:
        raise CannotFix("the layers are registered already")
    if last_name(node) == "defaultdict":
        raise CannotFix("a ModuleDict makes no entries by itself")
    plain = isinstance(node, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)
    mapping = isinstance(node, ast.Dict | ast.DictComp) or last_name(node) in ("dict", "OrderedDict")
    mapping = mapping or (bool(args.get("mapping")) and not plain)
    group = "Parameter" if args.get("parameters") else "Module"
    name = name_for(source, f"torch.nn.{group}{'Dict' if mapping else 'List'}", node)
    return [write(source, node, "{group}({layers})", group=name.text, layers=node), *name.edits]


@kind("register_parameter")
def register_parameter(sources: Sources, args: Args) -> list[Edit]:
    """Register a tensor that is to learn as a parameter: ``register_buffer("b", torch.zeros(3, requires_grad=True))`` →
    ``register_parameter("b", nn.Parameter(torch.zeros(3)))``.

    Args:
        place: the call of ``register_buffer``.
        made: the expression that makes the tensor.
    """
    source, registering = call(sources, required(args, "place"))
    other, made = expression(sources, required(args, "made"))
    if not is_method_call(registering, "register_buffer"):
        raise CannotFix("what registers the buffer is not written out")
    if other is not source:
        raise CannotFix("the tensor is made in another file")
    name = name_for(source, "torch.nn.Parameter", made)
    flag = drop_arguments(source, made, lambda _, k: k == "requires_grad") if isinstance(made, ast.Call) else []
    return [
        rename(source, registering.func, "register_parameter"),
        *drop_arguments(source, registering, lambda i, k: k == "persistent" or (k is None and i == 2)),
        *flag,
        write(source, made, "{parameter}({tensor})", parameter=name.text, tensor=made),
        *name.edits,
    ]


@kind("take_all", expression)
def take_all(source: Source, node: ast.expr, _: Args) -> list[Edit]:
    """Take what was filtered as a whole: ``filter(lambda p: p.requires_grad, net.parameters())`` →
    ``net.parameters()``, and the same of ``[p for p in net.parameters() if p.requires_grad]``.

    Args:
        place: the filtering expression.
    """
    if isinstance(node, ast.Call) and last_name(node) == "filter" and len(node.args) == 2:
        return [write(source, node, "{all}", all=node.args[1])]
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        (over,) = node.generators
        if len(over.ifs) == 1 and same(node.elt, over.target):
            return [write(source, node, "{all}", all=over.iter)]
    raise CannotFix("more is done there than to leave some of them out")
