"""Keep the graph of an inner ``torch.autograd.grad`` that the outer backward needs again.

Only for ``grad``: on a ``backward`` it hides what is wrong.

Args:
    place: the call of ``torch.autograd.grad``.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, last_name, required
from graphdoc.source.edits import set_keyword
from graphdoc.source.places import Edit


@kind("retain_graph")
def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    if last_name(node) != "grad":
        raise CannotFix("only an inner autograd.grad keeps its graph for what follows")
    if any(k.arg is None for k in node.keywords):
        raise CannotFix("the call takes what it is given by `**` as well, where the flag may stand already")
    told = any(k.arg == "retain_graph" for k in node.keywords)
    if not told and any(k.arg == "create_graph" and getattr(k.value, "value", None) is True for k in node.keywords):
        raise CannotFix("create_graph=True keeps the graph already")
    edits = set_keyword(source, node, "retain_graph", "True")
    if not edits:
        raise CannotFix("the call keeps its graph already")
    return edits
