"""GD615: an update that is not finite."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Remedy, remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.library_calls import library_calls
from graphdoc.program.number_limits import Numbers
from graphdoc.program.proof import Proof
from graphdoc.story.first_bad_value import Words, amount, explained

PAGE = Page(
    code="GD615",
    title="The optimizer's update makes nan of a finite gradient",
    families=("silent", "invalid-gradient"),
    what_happened="""\
Loss and gradients are finite, and after `step()` a parameter is not. The update itself divides by zero or overflows:
Adam with `eps=0`, or with an `eps` that half precision rounds to zero (`1e-8` does), a learning rate of nan or inf
from a schedule, `RMSprop` of a gradient that was always zero.""",
    why="""\
Adam divides by `sqrt(v) + eps`. Where a gradient has been exactly zero from the start, `v` is zero and `eps` is all
that is left: `0 / 0`.""",
    example="optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=0.0)",
    use_instead="""\
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-8)  # 1e-4 for parameters in half precision""",
    fix_safety="""\
Unsafe: `eps` bounds the size of a step; the default is harmless in single precision. Parameters in half precision
want an optimizer that keeps its state in single precision. Nothing is proposed where the step divides by no zero.""",
    not_this="""\
- The gradient was not finite before the step: the cause lies in the graph, and another entry of this group tells it.
- The numbers have grown for many steps: `exploding-gradients`.""",
    references=("torch.optim.Adam", ("torch.optim", "optim.html")),
)


_RATE = Remedy(
    "optimizer_rate",
    "Look at the learning rate of this step, and at the schedule that sets it",
    "display",
    "Nothing is divided here: a rate that is inf, nan or huge makes such an update of a finite gradient.",
)


@explained("nan-optimizer-update")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value was made inside of an optimizer's step."""
    divides = "div" in birth.op
    divisor = next((i for i in birth.inputs if i.count("zeros")), None)
    title = f"The step makes {birth.shows} of {'parameters whose gradient' if trouble.names else 'gradients that'} "
    title += f"{'is' if trouble.names else 'are'} finite"
    label = f"`{birth.op.strip('_')}` inside of the step gives {birth.shows}"
    because = amount(divisor, "zeros", "what the step divides by") if divides else ""
    text = "the gradients that went in were finite, the update that came out is not."
    remedies = (_bounded(trouble, birth, divisor) if divisor is not None else ()) if divides else (_RATE,)
    return Words(title, label, because, text, remedies, confidence=Proof.BIRTH.confidence)


_DIVIDING = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta")
"""Optimizers that divide by what ``eps`` is added to, each in a file of its name (torch/optim); AdamW uses Adam's."""


def _bounded(trouble: Trouble, birth: Birth, divisor: Numbers) -> tuple[Remedy, ...]:
    """A divisor that is not zero, where one call in sight makes an optimizer of the kind that has stepped; else in
    words."""
    files = {frame.file.replace("\\", "/").rpartition("/")[2].removesuffix(".py") for frame in birth.called}
    stepped = [name for name in _DIVIDING if name.lower() in files or (name == "AdamW" and "adam" in files)]
    value = "1e-4" if divisor.dtype.removeprefix("torch.") == "float16" else "1e-8"
    title, note = f"give the optimizer `eps={value}`", "It is added to what the step divides by, and bounds each step."
    made = library_calls(trouble.sources, *stepped) if stepped else []
    if len(made) != 1:
        return (Remedy("optimizer_eps", title, "display", note),)
    return remedy_at(made[0], "set_keyword", title, "unsafe", note, name="eps", value=value)
