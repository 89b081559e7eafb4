"""Keep only a detached copy of a result in an attribute; the function itself goes on with the live one.

``self.map = f(x)`` … ``return x * self.map`` becomes ``map_ = f(x)``, ``self.map = map_.detach()`` …
``return x * map_``. What has a name already (``self.map = h``) keeps it: ``self.map = h.detach()`` … ``return x * h``.

Args:
    place: the assignment ``self.name = …``, or an expression in it.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import copied, insert_after, write, written
from graphdoc.source.paths import same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import fresh_name

KIND = "detach_stored"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, anchor = statement(sources, required(args, "place"))
    if not isinstance(anchor, ast.Assign) or len(anchor.targets) != 1:
        raise CannotFix("the result is not stored by a plain assignment")
    target = anchor.targets[0]
    if not isinstance(target, ast.Attribute):
        raise CannotFix("the result is not stored in an attribute")
    function = source.node_function(anchor)
    if function is None:
        raise CannotFix("the result is stored outside of a function")
    if ".detach()" in source.segment(anchor.value):
        raise CannotFix("what is stored is detached already")
    end = source.span(anchor)[1]
    reads = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and same(n, target) and source.span(n)[0] > end
    ]
    block, index = source.node_block(anchor) or ([anchor], 0)
    behind = {n for s in block[index:] for n in ast.walk(s)}
    if not behind.issuperset(reads):
        raise CannotFix("the function reads the attribute where another branch may have set it")
    if isinstance(anchor.value, ast.Name) and not _bound_again(function, anchor.value.id, anchor.lineno):
        name = anchor.value.id
        return [write(source, anchor.value, f"{name}.detach()"), *(write(source, read, name) for read in reads)]
    name = fresh_name(source, target.attr, f"{target.attr}_")
    return [
        write(source, target, name),
        *insert_after(
            source, anchor, [written(source, f"{{stored}} = {name}.detach()", stored=copied(source, target))]
        ),
        *(write(source, read, name) for read in reads),
    ]


def _bound_again(function: ast.AST, name: str, line: int) -> bool:
    """Whether the name may stand for something else behind this line."""
    stores = [
        n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    ]
    loops = [
        n for n in ast.walk(function) if isinstance(n, ast.For | ast.While) and n.lineno < line <= (n.end_lineno or 0)
    ]
    return any(n.lineno >= line for n in stores) or bool(loops and stores)
