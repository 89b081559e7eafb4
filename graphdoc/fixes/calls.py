"""Another call, other arguments or a name for what it gives; flags, names handed over, what is registered."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, expression, kind, last_name, required, statement
from graphdoc.fixes.statements import named
from graphdoc.source.edits import add_members, drop_arguments, rename, set_keyword, wrap, write
from graphdoc.source.module import Source, each, is_method_call, is_within
from graphdoc.source.paths import is_read, last_word, weights_of
from graphdoc.source.places import Edit
from graphdoc.source.scopes import bound_names, fresh_name, is_readable, name_for


def _records(args: Args) -> bool:
    """A graph for a gradient, or a flag, takes nothing away; of other keywords that is not known."""
    return args.get("name") in ("create_graph", "requires_grad") and args.get("value") in (True, "True")


def _of_one_alone(args: Args) -> bool:
    """The correction of a deviation left out for a single value, for which it was nan."""
    return args.get("name") == "correction" and " > 1" in str(args.get("value"))


@kind("set_keyword", call, only_records=_records, keeps_finite=_of_one_alone)
def give_keyword(source: Source, node: ast.Call, args: Args) -> list[Edit]:
    """Give a call a keyword argument (``create_graph=True``), in place of the value that it has.

    Args:
        name: the keyword.
        value: its value as Python source (``"True"``), in which ``{torch.float32}`` is written as the file imports it;
            or True, False, None, a number.
    """
    name = str(required(args, "name"))
    value = args.get("value", "True")
    if not any(k.arg == name for k in node.keywords) and any(k.arg is None for k in node.keywords):
        raise CannotFix(f"the call takes what it is given by `**` as well, where {name} may stand already")
    text, more = named(source, value if isinstance(value, str) else repr(value), node)
    edits = set_keyword(source, node, name, text)
    if not edits:
        raise CannotFix(f"the call already has {name}={text}")
    return [*edits, *more]


@kind("drop_keyword", call)
def drop_keyword(source: Source, node: ast.Call, args: Args) -> list[Edit]:
    """Take a keyword argument (``retain_graph=True``) out of a call.

    Args:
        name: the keyword.
    """
    name = str(required(args, "name"))
    edits = drop_arguments(source, node, lambda _, keyword: keyword == name)
    if not edits:
        raise CannotFix(f"the call has no {name}")
    return edits


@kind("drop_weights", call)
def drop_weights(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Leave out the weights of what is differentiated: ``torch.autograd.backward(losses, ones)`` →
    ``backward(losses)``.

    A number is then weighed with one. Where a positional argument follows, ``None`` stands in their place.
    """
    name, position = weights_of(node)
    if len(node.args) > position + 1:
        return [write(source, node.args[position], "None")]
    edits = drop_arguments(source, node, lambda index, keyword: keyword == name or (not keyword and index == position))
    if not edits:
        raise CannotFix("the call weighs nothing")
    return edits


_OF_CHECKPOINT = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
"""Keywords of ``torch.utils.checkpoint.checkpoint`` (torch/utils/checkpoint.py) that say how it runs its function."""


@kind("call_directly", call, keeps_numbers=True, only_records=True)
def call_directly(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Call what a checkpoint runs itself: ``checkpoint(block, x, use_reentrant=False)`` → ``block(x)``."""
    if last_word(node.func) != "checkpoint" or not node.args or isinstance(node.args[0], ast.Starred):
        raise CannotFix("what is checkpointed is not written in the call")
    if any(k.arg in (None, "context_fn") for k in node.keywords):
        raise CannotFix("the checkpoint may run its function in a context of its own")
    edits = drop_arguments(source, node, lambda index, keyword: index == 0 or keyword in _OF_CHECKPOINT)
    return [write(source, node.func, "{function}", function=node.args[0]), *edits]


@kind("rsample", call)
def rsample(source: Source, node: ast.Call, _: Args) -> list[Edit]:
    """Draw a sample that gradients pass: ``dist.sample()`` → ``dist.rsample()`` (distributions that have it);
    ``torch.normal(mean, std)`` → ``torch.distributions.Normal(mean, std).rsample()``.
    """
    if is_method_call(node, "sample"):
        return [rename(source, node.func, "rsample")]
    if last_name(node) != "normal" or len(node.args) != 2 or node.keywords:
        raise CannotFix("no sample is drawn there")
    normal = name_for(source, "torch.distributions.Normal", node)
    mean, std = node.args
    drawn = write(source, node, f"{normal.text}({{mean}}, {{std}}).rsample()", mean=mean, std=std)
    return [drawn, *normal.edits]


_IMPORT = "from torch.nn.attention import SDPBackend, sdpa_kernel"


@kind("sdpa_math", statement)
def sdpa_math(source: Source, node: ast.stmt, _: Args) -> list[Edit]:
    """Use the attention that has a second derivative: ``with sdpa_kernel(SDPBackend.MATH):`` around a forward."""
    if any(isinstance(a, ast.With) and "sdpa_kernel" in ast.unparse(a.items[0]) for a in source.node_ancestors(node)):
        raise CannotFix("the attention already runs under sdpa_kernel")
    kernel = name_for(source, "torch.nn.attention.sdpa_kernel", node, _IMPORT)
    backend = name_for(source, "torch.nn.attention.SDPBackend", node, _IMPORT)
    return [*wrap(source, [node], f"with {kernel.text}({backend.text}.MATH):"), *kernel.edits, *backend.edits]


# Hand a function what it changes: under a torch.func transform it may change its arguments, and nothing else.


@kind("pass_captured", keeps_numbers=True)
def pass_captured(sources: Sources, args: Args) -> list[Edit]:
    """Make what a transformed function changes one of its arguments: ``grad(f)(x)`` → ``grad(f)(x, total=total)``.

    The transform wraps an argument, and a write into it reaches the tensor itself.

    Args:
        place: the write into a name from outside, or a call of ``functional_call``, whose module's buffers are changed.
        calling: the call of what the transform has given.
        name: the name from outside; of ``functional_call`` none is given.
    """
    source, node = statement(sources, required(args, "place"))
    other, calling = call(sources, required(args, "calling"))
    function = source.node_function(node)
    if other is not source or not isinstance(function, ast.FunctionDef):
        raise CannotFix("the transformed function is no `def` of the same file")
    given = function.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        raise CannotFix("not every argument of the transformed function is required")
    loads = [n for n in each(source.tree, ast.Name) if n.id == function.name and is_read(n)]
    if len(loads) != 1 or not is_within(loads[0], calling.func):
        raise CannotFix(f"`{function.name}` is used in other places too")
    name = str(args.get("name") or "")
    if name:
        seen, value, edits = name, name, list[Edit]()
    else:
        _, running = call(sources, required(args, "place"))
        if len(running.args) < 2 or not isinstance(running.args[0], ast.Name):
            raise CannotFix("the module and its parameters are not written out")
        seen = running.args[0].id
        name, value = fresh_name(source, "buffers"), f"dict({seen}.named_buffers())"
        edits = [_with_buffers(source, running.args[1], name)]
    if seen in bound_names(function) or not is_readable(source, seen, calling):
        raise CannotFix(f"`{seen}` is not known where the transformed function is called")
    return [*edits, *add_members(source, function, [name]), *add_members(source, calling, [f"{name}={value}"])]


def _with_buffers(source: Source, given: ast.expr, name: str) -> Edit:
    """``functional_call`` takes several dicts in a tuple."""
    if isinstance(given, ast.Tuple | ast.List):
        raise CannotFix("several dicts are given already")
    return write(source, given, f"({{given}}, {name})", given=given)


# Register what a module is to hold: layers in a plain list or dict, a tensor that is to learn; hand over all of it.

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
