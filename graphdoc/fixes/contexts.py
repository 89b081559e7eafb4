"""Finding the decorator or the ``with`` item that switches gradients off at a place."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import CannotFix, Sources, place, source_of, statement
from graphdoc.source.edits import drop_arguments, rename, write
from graphdoc.source.module import Function, Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

With = ast.With | ast.AsyncWith
SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


def last_name(node: ast.expr) -> str:
    """``no_grad`` of ``torch.no_grad()``, ``torch.no_grad`` and ``no_grad``."""
    while isinstance(node, ast.Call):
        node = node.func
    return last_word(node)


def decorator_at(sources: Sources, at: object, name: str | None) -> tuple[Source, Function, ast.expr]:
    """The decorator at a place, or the one of this name on the function around it.

    Raises:
        CannotFix: there is none.
    """
    source, node = statement(sources, at)
    exact = source.node_expression(place(at))
    for above in (node, *source.node_ancestors(node)):
        if not isinstance(above, Function):
            continue
        for decorator in above.decorator_list:
            if exact is not None and any(n is exact for n in ast.walk(decorator)):
                return source, above, decorator
        for decorator in above.decorator_list:
            if last_name(decorator) in ((name,) if name else SWITCHES):
                return source, above, decorator
    raise CannotFix(f"no decorator {name or ''} stands there".replace("  ", " "))


def item_at(sources: Sources, at: object, name: str | None) -> tuple[Source, ast.With | ast.AsyncWith, ast.withitem]:
    """The item of a ``with`` statement at a place, or the innermost one of this name around it.

    Raises:
        CannotFix: there is none.
    """
    spot = place(at)
    source = source_of(sources, spot)
    exact = source.node_expression(spot)
    node = source.node_statement(spot)
    for above in (node, *source.node_ancestors(node)) if node is not None else ():
        if not isinstance(above, With):
            continue
        for item in above.items:
            if exact is not None and any(n is exact for n in ast.walk(item.context_expr)):
                return source, above, item
        for item in above.items:
            if last_name(item.context_expr) in ((name,) if name else SWITCHES):
                return source, above, item
    raise CannotFix(f"no with statement {name or ''} stands there".replace("  ", " "))


def renamed(source: Source, node: ast.expr, new: str) -> list[Edit]:
    """The edits that turn ``torch.inference_mode(...)`` into ``torch.<new>()``."""
    function = node.func if isinstance(node, ast.Call) else node
    if last_name(function) == new:
        raise CannotFix(f"it is {new} already")
    edits: list[Edit] = []
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        if any(isinstance(g, ast.Constant) and g.value is False for g in given):
            raise CannotFix("the mode is switched off there")
        if new == "no_grad":
            edits += drop_arguments(source, node, lambda *_: True)
    if isinstance(function, ast.Attribute):
        return [rename(source, function, new), *edits]
    name = name_for(source, f"torch.{new}", node, "import torch")
    return [write(source, function, name.text), *name.edits, *edits]
