"""Make a copy of what an expression gives: ``net.to(device)`` → ``copy.deepcopy(net.to(device))``.

Args:
    place: the expression.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, Sources, expression, required
from graphdoc.source.edits import write
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "deepcopy_expression"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    name = name_for(source, "copy.deepcopy", node, "import copy")
    return [write(source, node, f"{name.text}({{it}})", it=node), *name.edits]
