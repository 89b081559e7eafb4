"""GD712: a GradScaler leaves out every step, at whatever scale."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Sign
from graphdoc.finding import Finding
from graphdoc.program.bad_values import Trouble, kind_of
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.spans import innermost_at, span
from graphdoc.story.first_bad_value import starved

PAGE = Page(
    code="GD712",
    title="The GradScaler leaves out every step: nothing is trained any more",
    families=("silent",),
    what_happened="""\
`scaler.step(optimizer)` leaves a step out when it finds an infinity or nan in the gradients, and `scaler.update()`
halves the scale. That is meant for the first few iterations. Here every step has been left out for a long time, and the
scale has fallen to 1 or less: the gradients are not finite by themselves. The loop goes on, the loss may even be
printed, and no parameter moves.""",
    why="""\
The scaler takes every infinity for an overflow that a smaller scale will mend. One bad row in each batch, a gradient
that is nan (the root of zero, a logarithm of zero, an empty mean) or parameters that are not finite already look the
same to it. It says nothing: being left out is the normal life of a step.""",
    example="""\
distance = (model(x) - y).pow(2).sum(1).sqrt()  # zero somewhere: its derivative is infinite
scaler.scale(distance.mean()).backward()
scaler.step(optimizer)
scaler.update()""",
    use_instead="""\
distance = (model(x) - y).pow(2).sum(1).clamp_min(1e-12).sqrt()
scaler.scale(distance.mean()).backward()
scaler.step(optimizer)
scaler.update()""",
    fix_safety="""\
Display: where the operation is known that makes the first value that is not finite, that operation is told instead,
with its own fix. Another scale, or another factor of the scaler, mends nothing.""",
    not_this="""\
- A few steps are left out at the beginning, or one now and then: that is how the scale is found.
- The scaler raised an error about the order of its calls: `amp-scaler-misuse`.""",
    references=(
        ("torch.amp.GradScaler", "amp.html#gradient-scaling"),
        ("Automatic mixed precision examples", "notes/amp_examples.html"),
    ),
)


def recognise(program: Program) -> Finding | None:
    """No other cause explains the operation that makes the first bad value: its place is told where it is known."""
    sign, trouble = first_sign(program.signs, "nonfinite"), program.trouble
    if sign is None or not sign.facts.get("scaler") or (trouble is not None and kind_of(trouble)):
        return None
    return _told(sign, trouble)


def _told(sign: Sign, trouble: Trouble | None) -> Finding | None:
    birth = (trouble.born or trouble.turned) if trouble is not None else None
    step = innermost_at(sign.facts["scaler"].get("stack"))
    begun = birth.place if birth is not None else None
    marks = [(begun, "the first NaN or infinity appears here"), (step, "leaves every step out")]
    places = [(frame, label) for frame, label in marks if frame is not None]
    if not places:
        return None
    text = f"{starved(sign).capitalize()}. At so small a scale the scaling is not the reason: the loss itself gives "
    text += "gradients that are nan or inf."
    spans = tuple(span("related" if i else "cause", frame, label) for i, (frame, label) in enumerate(places))
    because = "the scaler lowers its scale at each step that it leaves out, and none has helped"
    return Finding(*Proof.STEPS.at(0.9), PAGE.title, text, spans, because=because)
