"""GD617: gradients that explode."""

from __future__ import annotations

from graphdoc.causes.base import Cause, Page
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.observed import Program
from graphdoc.program.spans import span
from graphdoc.remedies.clipping import backward_of, clipping, step_behind
from graphdoc.story.bad_values import tell, trouble_with

SLUG = "exploding-gradients"
TITLE = "The gradients grow from step to step until nothing is finite"

PAGE = Page(
    what_happened="""\
Nothing is wrong with any single expression. The gradient grows, the step follows it, the next gradient is larger
still, and after a few updates a product or a square overflows. Recurrent networks over many steps do it, a learning
rate that a warm-up raises too far, deep networks without normalisation, losses that grow with the square of the
error.
""",
    why="""\
A recurrence multiplies by the same matrix at every step; where that stretches by more than one, the gradient grows
exponentially with the length. A large step then lands where the slope is steeper still.
""",
    example="""\
loss.backward()
optimizer.step()
""",
    use_instead="""\
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
optimizer.step()
""",
    fix_safety="""\
Unsafe: clipping keeps the direction of the gradient and bounds its length; which bound is right is for the task to
say (the norm of the healthy steps is in the report). With a GradScaler it comes behind `scaler.unscale_(optimizer)`.
A smaller learning rate, or a recurrence that cannot stretch, is the other way.
""",
    not_this="""\
- A single function has no value at its input (a logarithm, a root, a quotient): the other causes of this group.
- The overflow is one of half precision alone: `nan-half-overflow`.
- The gradients are clipped already, but at the wrong place: `clipping-without-effect`.
""",
    references=(
        (
            "torch.nn.utils.clip_grad_norm_",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",
        ),
        (
            "Automatic mixed precision examples: gradient clipping",
            "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping",
        ),
    ),
)


def recognise(program: Program) -> Finding | None:
    """The first bad value is an overflow of numbers that had grown out of all bounds."""
    found = trouble_with(program.trouble, SLUG)
    if found is None:
        return None
    trouble, birth = found
    call = backward_of(program.evidence.events, trouble) or birth.place
    step = step_behind(program.evidence.events)
    norms = [(c, norm) for c, _, norm in trouble.history if 0 <= norm < float("inf")]
    largest = max((i.largest for i in birth.inputs), default=0.0)
    grown = trouble.grown[0] if trouble.grown else ("", 0.0)
    told = [f"norm of the gradient {_plot([n for _, n in norms])}"] if len(norms) > 3 else []
    told += [f"{norms[0][1]:.3g} at first, {norms[-1][1]:.3g} in the last step"] if norms else []
    told += [f"`{grown[0]}` grew most"] if grown[1] > 10 else []
    at = birth.place
    more: tuple[Span, ...] = (
        (span("failed", at, f"overflows: {largest:.2g} goes in", program.sources),) if at is not None else ()
    )
    more += (span("cause", step, "takes a step of any size", program.sources),) if step is not None else ()
    return tell(
        trouble,
        birth,
        "The gradients explode: nothing bounds the size of a step",
        "no bound between this and the step",
        ", ".join(told),
        "no single expression is at fault, the numbers had grown out of all bounds before.",
        clipping(program),
        confidence="likely",
        at=call,
        more=more,
        makers=False,
    )


def _plot(norms: list[float]) -> str:
    """The norms as a row of bars, by their logarithm; the latest thirty."""
    import math

    bars = "▁▂▃▄▅▆▇█"
    logs = [math.log10(max(n, 1e-30)) for n in norms[-30:]]
    low, high = min(logs), max(logs)
    return "".join(bars[round((v - low) / (high - low) * 7) if high > low else 0] for v in logs)


CAUSE = Cause(
    code="GD617",
    slug=SLUG,
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("silent", "invalid-gradient"),
)
