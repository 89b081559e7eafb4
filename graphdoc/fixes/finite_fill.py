"""Mask with the smallest finite number instead of ``-inf``, so that a row that is masked out entirely has a softmax.

Args:
    place: the call that writes ``-inf``.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required
from graphdoc.source.edits import write
from graphdoc.source.places import Edit

KIND = "finite_fill"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = call(sources, required(args, "place"))
    given = [*node.args, *(k.value for k in node.keywords)]
    wanted = next((a for a in given if _is_minus_inf(a)), None)
    if wanted is None:
        raise CannotFix("-inf does not stand in the call itself")
    filled = node.func.value if isinstance(node.func, ast.Attribute) else None
    of_tensor = filled is not None and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("masked_fill")
    if of_tensor and isinstance(filled, ast.Name | ast.Attribute) and source.segment(filled) != "torch":
        return [write(source, wanted, "torch.finfo({filled}.dtype).min", filled=filled)]
    return [write(source, wanted, "-1e9")]


def _is_minus_inf(node: ast.expr) -> bool:
    text = ast.unparse(node).replace('"', "'")
    return text in ("float('-inf')", "-float('inf')", "-torch.inf", "-math.inf", "-np.inf", "-numpy.inf", "-inf")
