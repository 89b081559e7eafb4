"""A copy, a list or another value in the place of one that is shared."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, expression, kind, required, statement
from graphdoc.source.edits import write
from graphdoc.source.paths import is_path, key, parse_expression
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for


@kind("clone_parameters")
def clone_parameters(sources: Sources, args: Args) -> list[Edit]:
    """Run a forward on cloned parameters, so that a later step does not change what its backward needs.

    Args:
        place: the call of the module, ``net(x, k=y)`` or ``net.forward(x)``.
        untied: the module holds another one under two names, each of which PyTorch would replace and give back in turn:
            it would be left with the clone. Without ``tie_weights`` it goes by the names that the clones have.
    """
    source, node = call(sources, required(args, "place"))
    module = node.func
    if isinstance(module, ast.Attribute) and module.attr in ("forward", "__call__"):
        module = module.value
    if not is_path(module):
        raise CannotFix("the module that is called has no name here")
    net = source.segment(module)
    if net.split(".")[-1] == "functional_call" or net.split(".")[0] in ("F", "torch"):
        raise CannotFix(f"{net} is a function and not a module")
    handed = [a.value if isinstance(a, ast.Starred) else a for a in node.args] + [k.value for k in node.keywords]
    parts = {f"value{i}": value for i, value in enumerate(handed)}
    values = [f"{{{name}}}" for name in parts]
    positional = [f"*{v}" if isinstance(a, ast.Starred) else v for a, v in zip(node.args, values, strict=False)]
    behind = zip(node.keywords, values[len(positional) :], strict=True)
    named = [f'"{k.arg}": {v}' if k.arg else f"**{v}" for k, v in behind]
    name = name_for(source, "torch.func.functional_call", node, "import torch")
    given = [net, f"{{k: v.clone() for k, v in {net}.named_parameters()}}"]
    given.append(f"({positional[0]},)" if len(positional) == 1 else f"({', '.join(positional)})")
    given += [f"{{{', '.join(named)}}}"] if named else []
    given += ["tie_weights=False"] if args.get("untied") else []
    return [write(source, node, f"{name.text}({', '.join(given)})", **parts), *name.edits]


@kind("deepcopy_expression")
def deepcopy_expression(sources: Sources, args: Args) -> list[Edit]:
    """Make a copy of what an expression gives: ``net.to(device)`` → ``copy.deepcopy(net.to(device))``.

    Args:
        place: the expression.
    """
    source, node = expression(sources, required(args, "place"))
    name = name_for(source, "copy.deepcopy", node, "import copy")
    return [write(source, node, f"{name.text}({{it}})", it=node), *name.edits]


@kind("wrap_in_list")
def wrap_in_list(sources: Sources, args: Args) -> list[Edit]:
    """Make a list of what can be gone through only once: ``net.parameters()`` → ``list(net.parameters())``.

    Args:
        place: the expression.
    """
    source, node = expression(sources, required(args, "place"))
    return [write(source, node, "list({it})", it=node)]


@kind("use_instead")
def use_instead(sources: Sources, args: Args) -> list[Edit]:
    """Use another value of the same function: ``self.score`` → ``score`` where a loss took the wrong one of two.

    Args:
        place: an expression; every operand of this name in the statement around it is replaced.
        inside: whether only those in the expression itself are.
        operand: the name, attribute or item that is read there.
        name: the name that is read instead.
    """
    find = expression if args.get("inside") else statement
    source, node = find(sources, required(args, "place"))
    wanted = parse_expression(str(required(args, "operand")))
    if wanted is None:
        raise CannotFix("what is read there is no name, attribute or item")
    found = [
        n
        for n in ast.walk(node)
        if isinstance(n, type(wanted)) and isinstance(getattr(n, "ctx", None), ast.Load) and key(n) == key(wanted)
    ]
    if not found:
        raise CannotFix(f"{args['operand']} is not read there")
    return [write(source, n, str(required(args, "name"))) for n in found]
