"""Leave out the weights of what is differentiated: ``torch.autograd.backward(losses, ones)`` → ``backward(losses)``.

A number is then weighed with one. Where a positional argument follows, ``None`` stands in their place.

Args:
    place: the call of ``backward`` or of ``torch.autograd.grad``.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import drop_arguments, write
from graphdoc.source.paths import weights_of
from graphdoc.source.places import Edit

KIND = "drop_weights"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    name, position = weights_of(node)
    if len(node.args) > position + 1:
        return [write(source, node.args[position], "None")]
    edits = drop_arguments(source, node, lambda index, keyword: keyword == name or (not keyword and index == position))
    if not edits:
        raise CannotFix("the call weighs nothing")
    return edits
