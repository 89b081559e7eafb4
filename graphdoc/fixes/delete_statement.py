"""Remove a statement: a repeated backward, ``loss.requires_grad = True``, a forgotten ``set_grad_enabled(False)``.

Args:
    place: the statement, or an expression in it.
    refused: True where PyTorch refuses the statement, so that the program has never had its effect.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import delete
from graphdoc.source.layout import is_compound
from graphdoc.source.places import Edit

KIND = "delete_statement"


def only_records(args: Args) -> bool:
    """As who asks for it says: the statement did nothing but raise."""
    return bool(args.get("refused"))


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    if is_compound(node):
        raise CannotFix("a whole block is not removed")
    return delete(source, node)
