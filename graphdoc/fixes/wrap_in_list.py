"""Make a list of what can be gone through only once: ``net.parameters()`` → ``list(net.parameters())``.

Args:
    place: the expression.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, Sources, expression, required
from graphdoc.source.edits import write
from graphdoc.source.places import Edit

KIND = "wrap_in_list"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    return [write(source, node, "list({it})", it=node)]
