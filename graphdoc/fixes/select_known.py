"""Leave out what is nan in the data before computing: ``torch.nanmean((x - y) ** 2)`` → the mean of what is known.

Args:
    place: any expression of the statement that takes the ``nanmean`` or ``nansum``.
    side: which side of the difference or product has nan: 0 or 1.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import rename, write
from graphdoc.source.places import Edit

KIND = "select_known"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    side = args.get("side")
    for node in ast.walk(owner):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if (
            node.func.attr not in ("nanmean", "nansum")
            or ast.unparse(node.func.value) != "torch"
            or len(node.args) != 1
        ):
            continue
        differences = [
            n for n in ast.walk(node.args[0]) if isinstance(n, ast.BinOp) and isinstance(n.left, n.right.__class__)
        ]
        pair = next(
            (
                (n.left, n.right)
                for n in differences
                if isinstance(n.left, ast.Name)
                and isinstance(n.right, ast.Name)
                and isinstance(n.op, ast.Sub | ast.Mult)
            ),
            None,
        )
        if pair is None or side not in (0, 1):
            break
        known = f"[~torch.isnan({pair[side].id})]"
        edits = [write(source, n, f"{{values}}{known}", values=n) for n in pair]
        return [*edits, rename(source, node.func, node.func.attr.removeprefix("nan"))]
    raise CannotFix("which elements are to take part cannot be read off the expression")
