"""Let the mean of nothing be zero: ``F.cross_entropy`` over at least one target, any other mean by ``nan_to_num``.

Args:
    place: the call that takes the mean.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, required
from graphdoc.source.edits import set_keyword, write
from graphdoc.source.paths import last_word
from graphdoc.source.places import Edit

KIND = "mean_of_some"
_COUNTED = ("cross_entropy", "nll_loss")


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = expression(sources, required(args, "place"))
    if not isinstance(node, ast.Call):
        raise CannotFix("the mean is not taken by a call there")
    if "nan_to_num" in source.segment(node):
        raise CannotFix("it already counts as zero there")
    name = last_word(node.func)
    given = {k.arg for k in node.keywords}
    plain = len(node.args) == 2 and not given & {"weight", "reduction", "label_smoothing", None}
    if name not in _COUNTED or not plain:
        return [write(source, node, "{mean}.nan_to_num(0.0)", mean=node)]
    ignored = next((k.value for k in node.keywords if k.arg == "ignore_index"), "-100")
    counted = "{sum} / ({target} != {ignored}).sum().clamp(min=1)"
    mean = write(source, node, counted, sum=node, target=node.args[1], ignored=ignored)
    return [*set_keyword(source, node, "reduction", '"sum"'), mean]
