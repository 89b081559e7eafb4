"""Telling a forward that ran while its parameters were frozen, where they are not by the time of its backward."""

from __future__ import annotations

from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Span
from graphdoc.program.freezing import unfreezing
from graphdoc.program.observed import Program
from graphdoc.program.spans import distinct, innermost, place, where
from graphdoc.story.missing_graph import facts_of, story
from graphdoc.story.wording import folded


def unfrozen_since(program: Program, cut: Cut, since: set[str], freezing: tuple[Span, ...], strength: float) -> Finding:
    """The finding for a cut of reason ``frozen``; ``since`` are those of its parameters that require gradients by now,
    ``freezing`` the statements that froze them."""
    whose, one = folded(since), len(since) == 1
    was = "was" if one else "were"
    return Finding(
        strength,
        "likely",  # what the others have computed may have come in by a write that is not followed
        f"{whose} {was} frozen when the forward of this loss used {'it' if one else 'them'}, and unfrozen too late",
        f"Of what was seen to go into this loss, the last operations ran while {whose} {was} frozen, so that none of "
        f"them was recorded. {'It requires' if one else 'They require'} gradients by now, which gives what was "
        "computed before no graph.",
        distinct((*freezing, *story(program, cut, "computed here while its parameters were frozen"))),
        facts_of(program.cuts, cut),
        _remedies(program, cut),
    )


def _remedies(program: Program, cut: Cut) -> tuple[Remedy, ...]:
    """Compute it again where the parameters are unfrozen, if one function does both; else in words."""
    end = program.raised_at
    here = [f for f in cut.stack if end is not None and (f.file, f.function) == (end.file, end.function)]
    call = here[0] if here else innermost(cut.stack)
    if call is None:
        return ()
    note = "What is computed from parameters that require gradients has a graph, whatever becomes of the flags."
    behind = _unfrozen_between(program.sources, call, end) if here and end is not None else None
    words = f"unfreeze the parameters before {where(call)}, or compute it again behind the line that unfreezes them"
    by_hand = Remedy("compute_again", words, "display", note, {"place": place(call)})
    if behind is None or end is None:
        return (by_hand,)
    args = {"places": [place(call)], "after": place(behind), "backward": place(end)}
    title = f"compute {where(call)} again, behind {where(behind)}, where its parameters are unfrozen"
    return (Remedy("recompute_after", title, "unsafe", note, args), by_hand)


def _unfrozen_between(sources: SourceTexts, call: Frame, end: Frame) -> Frame | None:
    """The last line between the forward and the backward, in their file, that lets parameters require gradients."""
    found = [f for f in unfreezing(sources) if f.file == call.file and call.line < f.line < end.line]
    return max(found, key=lambda f: f.line, default=None)
