"""Use another value of the same function: ``self.score`` → ``score`` where a loss took the wrong one of two.

Args:
    place: an expression; every operand of this name in the statement around it is replaced.
    operand: the name, attribute or item that is read there.
    name: the name that is read instead.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import write
from graphdoc.source.paths import key, parse_expression
from graphdoc.source.places import Edit

KIND = "use_instead"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    wanted = parse_expression(str(required(args, "operand")))
    if wanted is None:
        raise CannotFix("what is read there is no name, attribute or item")
    found = [
        n
        for n in ast.walk(node)
        if isinstance(n, type(wanted)) and isinstance(getattr(n, "ctx", None), ast.Load) and key(n) == key(wanted)
    ]
    if not found:
        raise CannotFix(f"{args['operand']} is not read there")
    return [write(source, n, str(required(args, "name"))) for n in found]
