"""Run a forward on cloned parameters, so that a later step does not change what its backward needs.

Args:
    place: the call of the module, ``net(x, k=y)`` or ``net.forward(x)``.
    single: True for a single linear layer: ``F.linear(x, fc.weight.clone(), fc.bias.clone())``.
    bias: with ``single``, whether the layer has a bias (True by default).
    untied: the module holds another one under two names, each of which PyTorch would replace and give back in turn: it
        would be left with the clone. Without ``tie_weights`` it goes by the names that the clones have.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import write
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "clone_parameters"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    module = node.func
    if isinstance(module, ast.Attribute) and module.attr in ("forward", "__call__"):
        module = module.value
    if not is_path(module):
        raise CannotFix("the module that is called has no name here")
    net = source.segment(module)
    if net.split(".")[-1] == "functional_call" or net.split(".")[0] in ("F", "torch"):
        raise CannotFix(f"{net} is a function and not a module")
    if args.get("single"):
        return _linear(source, node, net, bool(args.get("bias", True)))
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


def _linear(source: Source, node: ast.Call, net: str, bias: bool) -> list[Edit]:
    if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        raise CannotFix(f"{net} is not called with exactly one input")
    name = name_for(source, "torch.nn.functional.linear", node, "import torch")
    given = ["{x}", f"{net}.weight.clone()", *([f"{net}.bias.clone()"] if bias else [])]
    return [write(source, node, f"{name.text}({', '.join(given)})", x=node.args[0]), *name.edits]
