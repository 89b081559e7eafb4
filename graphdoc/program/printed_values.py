"""Values that are taken out of a graph to be printed or logged: nothing goes on from them."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Place

_TELL = frozenset(
    {"print", "debug", "info", "warning", "add_scalar", "add_scalars", "set_postfix", "set_postfix_str"}
    | {"set_description", "set_description_str"}
)


def is_only_printed(sources: SourceTexts, frame: Frame | None) -> bool:
    """Whether the statement at a place does nothing but print or log."""
    text = sources.get(frame.file) if frame is not None else None
    if frame is None or text is None:
        return False
    statement = Source(frame.file, text).node_statement(Place.of(frame))
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and last_word(call.func) in _TELL
