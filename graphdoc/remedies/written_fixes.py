"""Whether a proposed fix can be written into the sources of the run, and which of several are the same."""

from __future__ import annotations

from graphdoc.evidence import SourceTexts
from graphdoc.finding import Remedy
from graphdoc.source.places import Edit


def applies(sources: SourceTexts, remedy: Remedy) -> bool:
    """Whether the fix can be written into the sources of the run."""
    return written(sources, remedy) is not None


def written(sources: SourceTexts, remedy: Remedy) -> list[Edit] | None:
    """The edits of a fix in the sources of the run; None where it cannot be written there."""
    from graphdoc.fixes.fix_kind import CannotFix
    from graphdoc.fixes.kinds import edits
    from graphdoc.source.module import Source

    try:
        return edits(remedy.kind, {f: Source(f, t) for f, t in sources.items()}, remedy.args)
    except CannotFix:
        return None


def unique(remedies: list[Remedy]) -> list[Remedy]:
    out: list[Remedy] = []
    for r in remedies:
        if not any(o.kind == r.kind and o.args == r.args for o in out):
            out.append(r)
    return out
