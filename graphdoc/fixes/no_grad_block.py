"""Run statements under ``with torch.no_grad():``.

Args:
    place: the statement, or an expression in it.
    last: optional; the last statement of the range, in the same block.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, statements
from graphdoc.source.edits import wrap
from graphdoc.source.module import Source
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "no_grad_block"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, chosen = statements(sources, args)
    return under_no_grad(source, chosen)


def under_no_grad(source: Source, chosen: list[ast.stmt]) -> list[Edit]:
    """The edits; refuses where the statements already run without gradients."""
    if any(isinstance(a, ast.With) and _is_no_grad(a) for a in (*source.node_ancestors(chosen[0]), *chosen)):
        raise CannotFix("the statements already run under no_grad")
    name = name_for(source, "torch.no_grad", chosen[0], "import torch")
    return [*wrap(source, chosen, f"with {name.text}():"), *name.edits]


def _is_no_grad(node: ast.With) -> bool:
    calls = [i.context_expr.func for i in node.items if isinstance(i.context_expr, ast.Call)]
    return any(getattr(f, "attr", getattr(f, "id", "")) in ("no_grad", "inference_mode") for f in calls)
