"""GD617: gradients that explode."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Finding
from graphdoc.growth import FAR, took_off
from graphdoc.model import Span
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.spans import span, span_of, where
from graphdoc.remedies.clipping import backward_of, clipping, step_behind
from graphdoc.story.first_bad_value import Words, latest_norms, plot, told_by
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD617",
    title="The gradients grow from step to step until nothing is finite",
    families=("silent", "invalid-gradient"),
    what_happened="""\
Nothing is wrong with any single expression. The gradient grows, the step follows it, the next gradient is larger
still, and after a few updates a product or a square overflows. Recurrent networks over many steps do it, a learning
rate that a warm-up raises too far, deep networks without normalisation, losses that grow with the square of the
error.""",
    why="""\
A recurrence multiplies by the same matrix at every step; where that stretches by more than one, the gradient grows
exponentially with the length. A large step then lands where the slope is steeper still.""",
    example="""\
loss.backward()
optimizer.step()""",
    use_instead="""\
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()""",
    fix_safety="""\
Unsafe: clipping keeps the direction of the gradient and bounds its length; which bound is right is for the task to
say (the norm of the healthy steps is in the report). With a GradScaler it comes after `scaler.unscale_(optimizer)`.
A smaller learning rate, or a recurrence that cannot stretch, is the other way.""",
    not_this="""\
- A single function has no value at its input (a logarithm, a root, a quotient): the other causes of this group.
- The overflow is one of half precision alone: `nan-half-overflow`.
- The gradients are clipped already, but at the wrong place: `clipping-without-effect`.""",
    references=(
        "torch.nn.utils.clip_grad_norm_",
        ("Automatic mixed precision examples: gradient clipping", "notes/amp_examples.html#gradient-clipping"),
    ),
)


def recognise(program: Program) -> Finding | None:
    """The first bad value is an overflow of numbers that had grown out of all bounds."""
    return told_by(program.trouble, "exploding-gradients", lambda trouble, birth: _words(program, trouble, birth))


def _words(program: Program, trouble: Trouble, birth: Birth) -> Words:
    call = backward_of(program.evidence.events, trouble) or birth.place
    step = step_behind(program.evidence.events, trouble)
    norms = trouble.norms
    largest = max((i.largest for i in birth.inputs), default=0.0)
    begun = took_off(norms)
    at = birth.place
    more: tuple[Span, ...] = span_of("failed", at, f"overflows: its input is {largest:.2g}")
    clipped = bool(library_calls(program.sources, "clip_grad_norm_", "clip_grad_value_"))
    if step is not None and not clipped:
        more += (span("cause", step, "the size of this step is not limited"),)
    return Words(
        PAGE.title if clipped else "The gradients explode: nothing bounds the size of a step",
        "takes steps that are too large, though gradients are clipped"
        if clipped
        else "its gradients are not clipped before the step",
        _growth(trouble, norms, begun),
        f"No single expression is at fault: the numbers had grown until {where(at)} overflowed."
        + (" Gradients are clipped, and the steps are too large all the same: lower the rate." if clipped else ""),
        () if clipped else clipping(program, trouble),
        confidence="likely",
        at=step or call if clipped else call,
        more=more,
        makers=False,
        placed=False,
        facts=(plot("gradient norm", norms, begun),) if len(norms) > 3 else latest_norms(trouble),
    )


def _growth(trouble: Trouble, norms: list[tuple[int, float]], begun: int | None) -> str:
    """How the norm of the gradient went, from when on, and whose part of it grew."""
    losses = [loss for _, loss, _ in trouble.history if 0 <= loss < float("inf")]
    told = [f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}"] if len(losses) > 1 and not norms else []
    told = [f"the gradient norm was {norms[0][1]:.3g} at first"] if norms else told
    if len(norms) > 1:
        told = [f"the gradient norm went from {norms[0][1]:.3g} to {norms[-1][1]:.3g}"]
    told += [f"it exploded at backward call {begun + 1}"] if begun is not None else []
    if begun is not None and trouble.grew_first:
        told.append(f"first in {folded(trouble.grew_first)}")
    elif trouble.grown and trouble.grown[0][1] > FAR:
        told.append(f"`{trouble.grown[0][0]}` grew most")
    return ", ".join(told)
