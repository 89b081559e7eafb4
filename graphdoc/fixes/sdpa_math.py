"""Use the attention that has a second derivative: ``with sdpa_kernel(SDPBackend.MATH):`` around a forward.

Args:
    place: the statement that calls the attention or the module that holds it.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import wrap
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

KIND = "sdpa_math"

_IMPORT = "from torch.nn.attention import SDPBackend, sdpa_kernel"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    if any(isinstance(a, ast.With) and "sdpa_kernel" in ast.unparse(a.items[0]) for a in source.node_ancestors(node)):
        raise CannotFix("the attention already runs under sdpa_kernel")
    kernel = name_for(source, "torch.nn.attention.sdpa_kernel", node, _IMPORT)
    backend = name_for(source, "torch.nn.attention.SDPBackend", node, _IMPORT)
    return [*wrap(source, [node], f"with {kernel.text}({backend.text}.MATH):"), *kernel.edits, *backend.edits]
