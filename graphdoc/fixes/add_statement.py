"""Add a statement beside another one: ``optimizer.step()`` behind ``loss.backward()``.

Args:
    place: the statement beside which it is put.
    statement: its Python source, one line.
    before: True to put it in front instead of behind.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.places import Edit

KIND = "add_statement"


def only_forgets(args: Args) -> bool:
    """Whether the statement only lets go of a value that the next forward sets anew (``model.hidden = None``).

    No graph is cut by that; a gradient is lost only where it is ``.grad`` itself that is let go of.
    """
    try:
        (node,) = ast.parse(str(args.get("statement", ""))).body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant) or node.value.value is not None:
        return False
    return all(isinstance(t, ast.Attribute) and t.attr != "grad" for t in node.targets)


def clears(args: Args) -> bool:
    """Whether the statement clears gradients."""
    return str(args.get("statement", "")).endswith(".zero_grad()")


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    text = str(required(args, "statement"))
    try:
        parsed = ast.parse(text).body
    except SyntaxError as e:
        raise CannotFix(f"{text} is no statement") from e
    if len(parsed) != 1:
        raise CannotFix(f"{text} is not one statement")
    return (insert_before if args.get("before") else insert_after)(source, node, [text])
