"""Telling tensors that are to learn and were made without ``requires_grad=True``."""

from __future__ import annotations

from graphdoc.finding import Finding, Remedy
from graphdoc.model import Span
from graphdoc.program.meant_to_learn import Learner
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import distinct, span
from graphdoc.story.wording import listing


def forgotten_flag(program: Program, learners: list[Learner], strength: float, remedies: tuple[Remedy, ...]) -> Finding:
    """What is held by an optimizer, or whose gradient is read, does not require gradients."""
    sources = program.sources
    shown = named(learners)
    many = len(learners) > 1
    held = any(one.held for one in learners)
    spans: list[Span] = [span("cause", one.frame, _label(one), sources) for one in learners[:2]]
    used = learners[0].used
    spans.append(span("related", used, "is to step it" if held else "reads its gradient", sources))
    lacks = "do not require gradients" if many else "does not require gradients"
    title = f"the gradient of {shown} is read, and {'they' if many else 'it'} {lacks}"
    return Finding(
        strength,
        Proof.GRAPH_END.where(held),
        f"{shown} {'are' if many else 'is'} given to an optimizer and {lacks}" if held else title,
        f"Nothing that the loss is computed from requires gradients. "
        f"{'An optimizer holds' if held else 'The program reads the gradient of'} {shown}, made without "
        "`requires_grad=True`: autograd records nothing for such a tensor.",
        distinct((*spans, *program.raised_span("the loss that arrives here has no graph"))),
        remedies=remedies,
        because=f"{'an optimizer holds' if held else 'the gradient is read of'} {shown}, "
        f"and nothing that the loss is computed from requires gradients",
    )


def named(learners: list[Learner]) -> str:
    """How a sentence calls them: ```w` and `b```."""
    return listing(list(dict.fromkeys(f"`{one.name}`" if one.name else "a tensor of the list" for one in learners)))


def _label(one: Learner) -> str:
    made = "is made here and does not require gradients"
    return f"`{one.name}` {made}" if one.name else made
