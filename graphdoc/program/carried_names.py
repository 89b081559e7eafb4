"""Names that go round a loop: a statement that takes a value up and binds its name to what it makes of it."""

from __future__ import annotations

from collections.abc import Mapping

from graphdoc.evidence import Frame, Node
from graphdoc.program.stored_values import meeting
from graphdoc.source.module import Source


def carried_on(sources: Mapping[str, str], made: Node | None, taken_up: Node | None) -> tuple[Frame, str] | None:
    """The statement ``state = cell(x, state)`` that carries a value on, and the name; None where none does.

    ``made`` is the node that made the value, ``taken_up`` the one that uses it. The statement around the use has to
    bind a name under which the value was made, in the same function, at another place.
    """
    pair = meeting(made, taken_up) if made is not None and taken_up is not None else None
    if pair is None:
        return None
    text = sources.get(pair[0].file)
    if text is None or (pair[0].line, pair[0].column) == (pair[1].line, pair[1].column):
        return None
    source = Source(pair[0].file, text)
    before, after = (source.names_bound_by(f.line, f.column or 1) for f in pair)
    name = next((n for n in after if n in before), "")
    return (pair[1], name) if name else None
