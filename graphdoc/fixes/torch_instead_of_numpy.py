"""Compute in torch what NumPy was asked for: ``np.sum(layers, 0)`` → ``torch.stack(layers).sum(0)``, ``np.exp(x)`` →
``torch.exp(x)``.

The numbers are the same, and the graph goes on. Reductions of a list are those that both libraries define alike: the
standard deviation and the median are not among them.

Args:
    place: the call of NumPy's function.
    structure: ``"list"`` where its argument is a variable that holds several tensors.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import write
from graphdoc.source.module import Source
from graphdoc.source.places import Edit
from graphdoc.source.scopes import imported_as, name_for

KIND = "torch_instead_of_numpy"

_ELEMENTWISE = frozenset(
    ("exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "square", "abs", "sign")
    + ("sin", "cos", "tan", "sinh", "cosh", "tanh", "clip")
)
"""One tensor in, one of its shape out, under the same name and with the same arguments by position."""

_REDUCTIONS = {"sum": "sum", "mean": "mean", "prod": "prod"} | dict.fromkeys(("max", "amax"), "amax")
_REDUCTIONS |= dict.fromkeys(("min", "amin"), "amin")
_JOINS = {"stack": "stack", "vstack": "vstack", "hstack": "hstack", "concatenate": "cat", "concat": "cat"}


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    name = last_name(node)
    numpy = imported_as(source, f"numpy.{name}", node) == ast.unparse(node.func)
    if not numpy or not node.args or isinstance(node.args[0], ast.Starred):
        raise CannotFix("the call is no function of NumPy's that torch has too")
    if any(k.arg != "axis" for k in node.keywords):
        raise CannotFix("the call has arguments that torch writes in another way")
    several = args.get("structure") == "list" or isinstance(node.args[0], ast.List | ast.ListComp)
    if name in _ELEMENTWISE and not several and not node.keywords:
        return _renamed(source, node, name)
    if name in _JOINS and several and not node.keywords:
        return _renamed(source, node, _JOINS[name])
    if name in _REDUCTIONS and several:
        return _reduced(source, node, _REDUCTIONS[name])
    raise CannotFix(f"torch has no {name} that does the same")


def _renamed(source: Source, node: ast.Call, name: str) -> list[Edit]:
    torch = name_for(source, f"torch.{name}", node, "import torch")
    return [write(source, node.func, torch.text), *torch.edits]


def _reduced(source: Source, node: ast.Call, method: str) -> list[Edit]:
    """``torch.stack(elements).sum(axis)``: the axis that NumPy counts in the array of the whole list is the same."""
    given = node.args[0]
    axis = node.args[1] if len(node.args) == 2 else next((k.value for k in node.keywords), None)
    if len(node.args) > 2 or (len(node.args) == 2 and node.keywords):
        raise CannotFix("the call has arguments that torch writes in another way")
    if method in ("prod", "amax", "amin") and axis is not None and not isinstance(axis, ast.Constant):
        raise CannotFix("the axes of the reduction are not written at the call")
    stack = name_for(source, "torch.stack", node, "import torch")
    several = "{given}" if isinstance(given, ast.List | ast.ListComp) else "list({given})"
    over = {"axis": axis} if axis is not None and ast.unparse(axis) != "None" else {}
    template = f"{stack.text}({several}).{method}({'{axis}' if over else ''})"
    return [write(source, node, template, given=given, **over), *stack.edits]
