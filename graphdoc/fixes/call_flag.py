"""Switch a module's parameters instead of an attribute: ``m.requires_grad = False`` → ``m.requires_grad_(False)``.

Args:
    place: the assignment.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import instead, written
from graphdoc.source.places import Edit

KIND = "call_flag"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Attribute) or target.attr != "requires_grad":
        raise CannotFix("no `requires_grad` is set there")
    called = written(source, "{module}.requires_grad_({flag})", module=target.value, flag=node.value)
    return instead(source, node, [called])
