"""Record one statement where recording is switched off around it: ``with torch.enable_grad(): loss = closure()``.

Args:
    place: the statement, or an expression in it.
    last: optional; the last statement of the range, in the same block.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import last_name
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, statements
from graphdoc.source.edits import wrap
from graphdoc.source.layout import is_compound
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "enable_grad_block"
ONLY_RECORDS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, chosen = statements(sources, args)
    node = chosen[0]
    if is_compound(node):
        raise CannotFix("it stands in the head of a block")
    around = [a for a in source.node_ancestors(node) if isinstance(a, ast.With)]
    if any(last_name(item.context_expr) == "enable_grad" for a in around for item in a.items):
        raise CannotFix("the statement runs under enable_grad already")
    name = name_for(source, "torch.enable_grad", node, "import torch")
    return [*wrap(source, chosen, f"with {name.text}():"), *name.edits]
