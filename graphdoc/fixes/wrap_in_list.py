"""Make a list of what can be gone through only once: ``net.parameters()`` → ``list(net.parameters())``.

Args:
    place: the expression.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, Sources, expression, required
from graphdoc.source.places import Edit

KIND = "wrap_in_list"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    start, end = source.span(node)
    return [Edit(source.file, start, start, "list("), Edit(source.file, end, end, ")")]
