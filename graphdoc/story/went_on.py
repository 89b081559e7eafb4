"""Telling a lost graph in a run that went on: the causes tell it as the error that it would have been."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.evidence import Cut, SourceTexts
from graphdoc.finding import Finding
from graphdoc.program.cuts import cover_ups
from graphdoc.program.library_calls import by_checkpoint
from graphdoc.program.observed import Program
from graphdoc.program.spans import (
    code_at,
    innermost_user,
    span,
)
from graphdoc.story.gradients import moved_by
from graphdoc.story.missing_graph import of_cut
from graphdoc.story.wording import as_called, folded

_FAILED = "the loss that arrives here has no graph"
_UNREACHED = "backward() reaches no parameter"


def retold(program: Program, finding: Finding, families: tuple[str, ...]) -> Finding:
    """The finding in the words of what was seen; as it is where its evidence tells of an exception that was raised.
    ``families`` are those of its cause."""
    sign = program.evidence.as_if
    if sign is None or sign.kind not in ("covered-loss", "constant-term", "cut-off", "cut-term"):
        return finding
    if "no-graph" not in families:
        return finding  # of another sign of the same run
    if sign.kind == "covered-loss":
        return _covered(program, finding)
    term = sign.kind == "constant-term"
    label = "a term of this loss has no graph" if term else "goes through the rest of the loss only"
    spans = [replace(s, label=label) if s.label == _FAILED else s for s in finding.spans]
    frame = innermost_user(sign.other)
    if frame is not None:
        spans.append(span("consumed", frame, "the term is added here: it has a value and no gradient", program.sources))
    whose = folded(sign.parameters)
    if term:
        title = f"{_made_by(program)} a constant: it adds nothing to any gradient"
        because = "the other terms have a graph; this one was computed from a value with a graph, and lost it"
    elif sign.facts.get("part"):
        title = f"a term of this loss gives {whose or 'what it was drawn from'} no gradient: it uses a drawn number"
        because = "other terms of the loss reach them; this one uses only what was drawn"
    elif sign.kind == "cut-term":
        title = f"a term of this loss trains nothing: {whose or 'what it is for'} cannot be reached through it"
        because = (
            "the optimizer of this loss holds no parameter of this term; the gradients that the term gives to others "
            "are cleared before their step"
        )
    else:
        receives, them, their = ("receives", "it", "its") if len(sign.parameters) == 1 else ("receive", "them", "their")
        cut_off = f"the graph is cut after {them}"
        title = f"{whose or 'parameters of the optimizer'} {receives} no gradient: {cut_off}"
        because = f"{their} optimizer steps, and no recorded backward call gave {them} a gradient"
        if slope := sign.facts.get("measured"):
            because += f"; the loss depends on {them} all the same: {moved_by(slope)}"
        if sign.facts.get("before"):
            because = (
                f"{their} optimizer found gradients in earlier steps, and then none in {sign.count} steps in a row"
            )
        if sign.facts.get("at_steps"):
            has = "has" if len(sign.parameters) == 1 else "have"
            title = f"{whose or 'parameters of the optimizer'} {has} no gradient when {their} optimizer steps"
            because = (
                f"{'it' if has == 'has' else 'they'} had none at each step of {their} optimizer that was looked at"
            )
    told = program.cuts[0] if program.cuts else None
    explanation = (
        f"{_ended_by(program.sources, told)}PyTorch raises no error, because the rest of the loss still has a graph."
    )
    told_now = replace(finding, title=title, explanation=explanation, because=because, spans=tuple(spans))
    if term and frame is not None and _trains_nobody(program):
        return _of_untrained(told_now, folded({n: None for c in program.cuts for n in c.behind}))
    said = term and told is not None and told.reason == "detach"  # the author wrote so, of all of the term
    # What NumPy and Python have computed in between was not seen, so that this cut is the one is not proven.
    said = said or bool(sign.facts.get("said") or sign.facts.get("before"))
    if (sign.kind == "cut-term" or said) and finding.confidence == "certain":
        return replace(told_now, confidence="likely")  # that it was meant to is not in the graph
    return told_now


def _trains_nobody(program: Program) -> bool:
    """Whether no optimizer holds anything that was cut off: with its graph, the term would train nobody either."""
    owners = {p.name: p.owners for p in program.parameters}
    behind = [name for cut in program.cuts for name in cut.behind]
    return bool(behind) and all(name in owners and not owners[name] for name in behind)


def _of_untrained(finding: Finding, whose: str) -> Finding:
    """A term that was computed from the wrong value: the cut is right, and the place to change is the term's own."""
    spans = [replace(s, role="related") if s.role == "cause" else s for s in finding.spans]
    return replace(
        finding,
        title="a term of the loss is a constant: no optimizer holds what it is computed from",
        explanation=f"It is computed from {whose}, and with a graph it would train nobody either. Compute it from what "
        "is to learn: one of its two sides, as a rule, is not the value that was meant.",
        spans=tuple(replace(s, role="cause") if s.role == "consumed" else s for s in spans),
        remedies=(),
    )


def _made_by(program: Program) -> str:
    """What makes a term of the loss what it is, as the beginning of a title."""
    cut = program.cuts[0] if program.cuts else None
    if cut is None or cut.reason == "no-grad":
        return "a term of the loss is"
    return f"{of_cut(program.sources, cut)} makes a term of the loss"


def _ended_by(sources: SourceTexts, cut: Cut | None) -> str:
    """What has left the value without a graph, as a sentence of its own."""
    if cut is None:
        return ""
    if by_checkpoint(cut):
        return "The reentrant checkpoint runs its block without recording, as none of its inputs requires gradients. "
    if cut.reason == "no-grad":
        return f"{as_called(cut.op)} runs where nothing is recorded. "
    return f"{of_cut(sources, cut)} ends the graph of this value. "


def _covered(program: Program, finding: Finding) -> Finding:
    """A loss without graph to which requires_grad was given: PyTorch's error never came."""
    hidden = [
        span("related", f, "hides the error that PyTorch would raise", program.sources)
        for f in cover_ups(program.sources, program.evidence.as_if)
    ]
    named = f": `{code_at(program.sources, innermost_user(program.cuts[0].stack))}`" if program.cuts else ""
    label = "this backward ends at the loss itself: no parameter receives a gradient"
    spans = [replace(s, label=label) if s.label == _FAILED else s for s in finding.spans]
    return replace(
        finding,
        title=f"{_UNREACHED}, because {_lowered(finding.title).removesuffix(f', so {_UNREACHED}')}"[:160],
        spans=(*spans, *hidden),
        because=f"the loss was made to require gradients, and what it was computed from is cut off{named}",
    )


def _lowered(text: str) -> str:
    return text if text[:1] in "`" or text[1:2].isupper() else text[:1].lower() + text[1:]
