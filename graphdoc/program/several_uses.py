"""A value that one loss takes up at several places: to keep its graph lets each of them train what lies behind it."""

from __future__ import annotations

from graphdoc.evidence import Cut, Frame
from graphdoc.program.observed import Program
from graphdoc.program.spans import in_function, innermost_user
from graphdoc.program.value_reads import bound_names, uses_in_loss
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def uses_of_cut(program: Program, cut: Cut) -> list[Frame]:
    """The places at which the loss takes up the value that was cut off, one for each line, where there are several.

    Of a value that has a plain name in the function that makes the backward call; empty for any other.
    """
    made = innermost_user(cut.stack)
    sign, raised = program.evidence.as_if, program.raised
    stack = sign.stack if sign is not None else raised.stack if raised is not None else []
    call = in_function(reversed(stack), made) if made is not None else None
    if made is None or call is None:
        return []
    source = Source(made.file, program.sources.get(made.file, ""))
    statement = source.node_statement(Place.of(made))
    within = source.node_function(statement) if statement is not None else None
    # A name that is bound once: what is bound anew under it is another value.
    bound = [n for n in bound_names(program.sources, made) if n.isidentifier()]
    names = [n for n in bound if len(source.node_assignments(n, within)) == 1]
    lines = {f.line: f for f, _ in uses_in_loss(program.sources, call, names) if f.line != made.line}
    return [lines[n] for n in sorted(lines)] if len(lines) > 1 else []
