"""Telling parameters that were frozen for another loss and are still frozen where their own loss is computed."""

from __future__ import annotations

from graphdoc.evidence import SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program.kept_frozen import Freezing, KeptFrozen, freezing_of, released_behind
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, moment, place, span, span_of, where
from graphdoc.story.optimizers import all_told
from graphdoc.story.wording import folded


def still_frozen(program: Program, found: KeptFrozen) -> Finding:
    """The finding; it stands for whatever else keeps this loss from having a graph, which was so the last time too."""
    whose, one = folded(found.names), len(found.names) == 1
    freezing = list(freezing_of(program.sources, sorted(found.names)))
    was, them = ("was", "it") if one else ("were", "them")
    told, because = _told(program, found, whose, one)
    earlier = found.earlier.stack if found.earlier is not None else []
    return Finding(
        0.98,
        Proof.STEPS.where(found.earlier is not None),
        f"{whose} {was} frozen since the last time that this loss trained {them}"
        if found.earlier is not None
        else f"{whose} {'is' if one else 'are'} still frozen where {'its' if one else 'their'} own loss is computed",
        f"{told}, so nothing of this loss is recorded. What is frozen for another loss has to be let go again before "
        "its own loss is computed.",
        distinct(
            (
                *(span("cause", f.at, f"freezes {whose}, and nothing lets go", program.sources) for f in freezing[:2]),
                *span_of("created", earlier, "had a graph here", program.sources, moment(found.earlier)),
                *program.raised_span("the loss that arrives here has no graph"),
            )
        ),
        (),
        _let_go(program.sources, found, freezing),
        covers="GD3",
        because=because,
    )


def _told(program: Program, found: KeptFrozen, whose: str, one: bool) -> tuple[str, str]:
    """That they are frozen, and what shows that this loss is to train them: as a part of a sentence and as a whole."""
    none = "it requires no gradient" if one else "none of them requires gradients"
    if found.earlier is None:
        names = all_told(program.optimizers, program.journal.works_for(found.failing))
        holds = f"{' and '.join(names)} {'steps' if len(names) == 1 else 'step'} behind this call and hold"
        holds += "s" * (len(names) == 1)
        return f"{holds} {whose}: {none}", f"{holds} {whose}, frozen alone"
    number = program.journal.number(found.earlier)
    before = f"backward #{number}" if number is not None else "the call before"
    return (
        f"The last call here ({before}) reached {whose}. By now {none}",
        f"{before}, made here, reached {whose}; {'it is' if one else 'all of them are'} frozen now",
    )


def _let_go(sources: SourceTexts, found: KeptFrozen, freezing: list[Freezing]) -> tuple[Remedy, ...]:
    out = []
    for f in freezing:
        behind = released_behind(sources, f, found.between)
        if behind is not None:
            out.append(
                Remedy(
                    "add_statement",
                    f"let {folded(found.names)} go again behind {where(behind)}",
                    "unsafe",
                    f"What {where(f.at)} freezes is frozen for that loss alone, and its own loss trains it.",
                    {"place": place(behind), "statement": f.opposite},
                )
            )
    return tuple(out[:2])
