"""Add a statement beside another one: ``optimizer.step()`` behind ``loss.backward()``.

Args:
    place: the statement beside which it is put.
    statement: its Python source, one line.
    before: True to put it in front instead of behind.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, required, statement
from graphdoc.source.blocks import place_text
from graphdoc.source.places import Edit

KIND = "add_statement"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    text = str(required(args, "statement"))
    try:
        parsed = ast.parse(text).body
    except SyntaxError as e:
        raise CannotFix(f"{text} is no statement") from e
    if len(parsed) != 1:
        raise CannotFix(f"{text} is not one statement")
    return place_text(source, node, [text], after=not args.get("before"))
