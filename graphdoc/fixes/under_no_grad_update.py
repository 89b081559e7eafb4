"""A hand-written update of a parameter goes under no_grad: ``w -= lr * w.grad``, ``w = w - lr * w.grad``.

The second form makes a new tensor, which is no parameter any more; under no_grad it becomes the first.

Args:
    place: the update, or an expression in it.
    last: optional; the last of several updates in one block.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, Sources, required, statement
from graphdoc.fixes.no_grad_block import edit as wrap_block
from graphdoc.source.edits import instead, written
from graphdoc.source.paths import SYMBOLS, same
from graphdoc.source.places import Edit

KIND = "under_no_grad_update"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    edits = wrap_block(sources, args)
    value = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(node, ast.Assign) and isinstance(value, ast.BinOp) and same(value.left, node.targets[0]):
        template = f"{{target}} {SYMBOLS[type(value.op)]}= {{value}}"
        edits += instead(source, node, [written(source, template, target=node.targets[0], value=value.right)])
    return edits
