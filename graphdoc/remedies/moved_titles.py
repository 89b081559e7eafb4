"""What a fix is called that computes a value where it is used: a statement that something else still reads stays."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.spans import where
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def titled(sources: SourceTexts, remedy: Remedy, made: Frame, there: str) -> Remedy:
    """The remedy with its title: the statement at ``made`` is moved, or what it computes is computed ``there`` too."""
    how = f", as {where(made)} does" if _stays(sources, remedy, made) else f": move {where(made)} into it"
    return replace(remedy, title=f"compute it {there}{how}")


def _stays(sources: SourceTexts, remedy: Remedy, made: Frame) -> bool:
    from graphdoc.fixes.fix_kind import CannotFix
    from graphdoc.fixes.kinds import edits

    parsed = {f: Source(f, t) for f, t in sources.items()}
    source = parsed.get(made.file)
    node = source.node_statement(Place.of(made)) if source is not None else None
    if source is None or node is None:
        return False
    start, end = source.span(node)
    try:
        changes = edits(remedy.kind, parsed, remedy.args)
    except CannotFix:
        return False
    return not any(e.file == made.file and e.start <= start and end <= e.end for e in changes)
