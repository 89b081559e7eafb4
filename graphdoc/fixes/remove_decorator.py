"""Take a decorator off a function.

Args:
    place: the decorator, or the function (or anything in it) together with ``name``.
    name: the decorator's last name (``no_grad``), where ``place`` is not the decorator itself.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.contexts import decorator_at
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required
from graphdoc.source.module import Source
from graphdoc.source.places import Edit

KIND = "remove_decorator"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, _, decorator = decorator_at(sources, required(args, "place"), args.get("name"))
    return removal(source, decorator)


def removal(source: Source, decorator: ast.expr) -> list[Edit]:
    lines = source.lines
    at = source.code.rindex("@", 0, source.span(decorator)[0])
    first, last = lines.line_of(at), lines.line_of(source.span(decorator)[1])
    if source.code[lines.start(first) : at].strip():
        raise CannotFix("the decorator shares its line with something else")
    return [Edit(source.file, lines.start(first), lines.after(last), "")]
