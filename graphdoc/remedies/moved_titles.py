"""What a fix is called that computes a value where it is used: a statement that something else still reads stays."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.spans import where
from graphdoc.remedies.written_fixes import written
from graphdoc.source.edits import spot
from graphdoc.source.module import Source
from graphdoc.source.places import Instead, Place


def titled(sources: SourceTexts, remedy: Remedy, made: Frame, there: str) -> Remedy:
    """The remedy with its title: statements are moved, or what ``made`` stands for is computed ``there`` too."""
    moved = _moved(sources, remedy, made)
    first, *others = moved or [made.line]
    lines = ", ".join([where(replace(made, line=first)), *map(str, others)])
    how = f", as {where(made)} does" if made.line not in moved else f": move {lines} into it"
    return replace(remedy, title=f"compute it {there}{how}")


def _moved(sources: SourceTexts, remedy: Remedy, made: Frame) -> list[int]:
    """The lines, of the file of ``made``, of the statements that are taken away; as if that was all, where the fix
    cannot be written."""
    source = Source(made.file, sources.get(made.file, ""))
    changes = written(sources, remedy) if source.node_statement(Place.of(made)) is not None else None
    if changes is None:
        return [made.line]
    gone = [e.at for e in changes if e.file == made.file and e.at is not None and isinstance(e.change, Instead)]
    return sorted({n.lineno for n in source.node_statements() if any(at.holds(spot(source, n)) for at in gone)})
