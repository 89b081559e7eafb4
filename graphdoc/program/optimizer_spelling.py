"""How the code of one function can write an optimizer that the program elsewhere calls by another path."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.module import Source
from graphdoc.source.paths import targets_of
from graphdoc.source.places import Place
from graphdoc.source.scopes import is_readable


def spelled(sources: SourceTexts, name: str, at: Frame, calls: Iterable[Frame]) -> str | None:
    """``self.optimizer`` in a method of what the main function calls ``agent``; None where no spelling is known.

    Args:
        name: how the program calls the optimizer, found by going through its variables (``agent.optimizer``).
        at: where it is to be written.
        calls: places of calls that are known to have been made on it.
    """
    source = Source(at.file, sources.get(at.file, ""))
    here = source.node_statement(Place.of(at))
    if here is None:
        return None
    for call in calls:
        if call.file == at.file:
            text = _called_on(source, bindings.call_at(sources, call), here, name.rpartition(".")[2])
            if text:
                return text
    return name if is_readable(source, name.split(".")[0].split("[")[0], here) else None


def _called_on(source: Source, call: ast.Call | None, here: ast.stmt, last: str) -> str:
    """What the call is made on or given (``scaler.step(optimizer)``), if that means the same at ``here``."""
    if call is None or not isinstance(call.func, ast.Attribute):
        return ""
    named = [n for n in (call.func.value, *call.args) if bindings.text_of(n).rpartition(".")[2] == last]
    found = named[0] if named else call.func.value if not call.args else None
    # Trees of one text are parsed more than once: the statement is found again by its place.
    owner = source.node_statement(source.place(found)) if found is not None else None
    if found is None or owner is None or source.node_function(owner) is not source.node_function(here):
        return ""
    around = set(source.node_ancestors(here))
    names = {n.id for n in ast.walk(found) if isinstance(n, ast.Name)}
    for loop in source.node_ancestors(owner):
        each = targets_of(loop) if isinstance(loop, ast.For | ast.AsyncFor) and loop not in around else []
        if names & {t.id for t in each if isinstance(t, ast.Name)}:
            return ""  # each round of that loop means another optimizer by it
    return bindings.text_of(found)
