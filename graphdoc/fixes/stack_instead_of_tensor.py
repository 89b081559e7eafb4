"""Join tensors with their graphs: ``torch.tensor([a, b])`` → ``torch.stack([a, b])``; ``torch.tensor(x)`` → ``x``.

``.item()`` and ``float()`` on the elements go too.

Args:
    place: the call of ``torch.tensor`` (``as_tensor``, ``Tensor``, ``FloatTensor``).
    structure: ``"list"`` where the argument is a variable that holds a list; ``"tensor"`` by default.
    flat: True where the tensors have dimensions, of one element each: ``torch.tensor`` makes numbers of them.
    nested: True where it is a list of lists: each is joined by itself, where it is written.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import drop_arguments, write
from graphdoc.source.module import Source
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "stack_instead_of_tensor"
KEEPS_LOSS = True

_MAKERS = ("tensor", "as_tensor", "Tensor", "FloatTensor", "DoubleTensor", "from_numpy")
_LISTS = ("list", "tuple", "sorted")


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    if last_name(node) not in _MAKERS or not node.args:
        raise CannotFix("the call does not make a tensor from a list")
    given = node.args[0]
    several = isinstance(given, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)
    several = several or (isinstance(given, ast.Call) and last_name(given) in _LISTS)
    structure = args.get("structure")
    if not several and not (structure == "list" or (isinstance(structure, dict) and "list" in structure)):
        return [write(source, node, "{given}", given=given)]
    name = name_for(source, "torch.stack", node, "import torch")
    flat = bool(args.get("flat"))
    rows = [e for e in getattr(given, "elts", ()) if isinstance(e, ast.List)]
    if (args.get("nested") and not rows) or (rows and (len(rows) != len(getattr(given, "elts", ())) or flat)):
        widths = {len(row.elts) for row in rows}
        if len(widths) != 1 or any(isinstance(e, ast.List | ast.Starred) for row in rows for e in row.elts):
            raise CannotFix("the lists of tensors that stand in the list are not written as rows of one length")
    shape = f"{len(rows)}, -1" if rows else "-1"
    return [
        write(source, node.func, name.text),
        *drop_arguments(source, node, lambda index, keyword: index > 0 or keyword is not None),
        *([write(source, node, f"{{it}}.reshape({shape})", it=node)] if flat else ()),
        *_elements(source, given, name.text),
        *name.edits,
    ]


def _elements(source: Source, given: ast.expr, stack: str) -> list[Edit]:
    if isinstance(given, ast.GeneratorExp | ast.ListComp):
        edits = _element(source, given.elt, stack)
        if isinstance(given, ast.GeneratorExp):
            raise CannotFix("torch.stack takes a list, not a generator")
        return edits
    if isinstance(given, ast.List | ast.Tuple):
        if not given.elts:
            raise CannotFix("the list is empty")
        return [e for element in given.elts for e in _element(source, element, stack)]
    return []


def _element(source: Source, node: ast.expr, stack: str) -> list[Edit]:
    if isinstance(node, ast.Constant | ast.UnaryOp) and isinstance(getattr(node, "operand", node), ast.Constant):
        raise CannotFix("plain numbers stand among the elements")
    if isinstance(node, ast.List | ast.ListComp):
        return [write(source, node, f"{stack}({{it}})", it=node), *_elements(source, node, stack)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return [write(source, node, "{it}", it=node.func.value)]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "float" and len(node.args) == 1:
        return [write(source, node, "{it}", it=node.args[0])]
    return []
