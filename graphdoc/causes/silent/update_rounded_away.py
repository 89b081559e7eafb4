"""GD714: parameters of 16 bits, to which a step adds less than what is between two numbers."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Sign
from graphdoc.finding import Finding, Remedy
from graphdoc.program.number_limits import shortened
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import span_of
from graphdoc.story.wording import folded, opening, optimizer_of

PAGE = Page(
    code="GD714",
    title="Parameters of 16 bits stand still: their updates are rounded away",
    families=("silent",),
    what_happened="""\
The parameters are `bfloat16` or `float16`, they have gradients, the optimizer steps, and nearly all of their elements
are bit by bit what they were before. The update is not zero: it is smaller than half the distance to the next number,
and the sum is rounded back.""",
    why="""\
A `bfloat16` has 8 significant bits: near 1 the next number is 0.0078 away, near 0.1 it is 0.0005. `step()` adds the
update to the parameter in the parameter's own format. With Adam an update is about as large as the learning rate, so
at a rate of 1e-5 only elements below 0.004 can move. Nothing fails, and the loss goes down a little by those. The
weights of a norm begin at 1: at any usual rate they keep that value while the rest of the model learns.""",
    example="""\
model = Net().to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
loss = criterion(model(x.to(torch.bfloat16)), y)""",
    use_instead="""\
model = Net()  # float32, and computes in 16 bits all the same
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = criterion(model(x), y)""",
    fix_safety="""\
Display: it costs memory, or changes the numbers. Keep the parameters in 32 bits and compute under `autocast`; or let
the optimizer hold a copy of 32 bits and copy it into the model after each step. An optimizer that rounds at random, or
keeps what was rounded off, needs less memory. A larger learning rate helps only what it is not too large for.""",
    not_this="""\
- The learning rate is still rising, or has fallen to nearly zero at the end of a schedule.
- The weights of a norm, which are near 1, stand still in the first steps. They are told when they have not moved in 64.
- A `GradScaler` leaves out every step: `scaler-skips-every-step`.
- The gradients themselves are zero: `nondifferentiable-op`.""",
    references=(links.OPTIM, ("Automatic mixed precision", "amp.html"), ("torch.finfo", "type_info.html")),
)


def recognise(program: Program) -> Finding | None:
    """Nearly all elements were the same numbers before and after each step that was compared."""
    sign = first_sign(program.signs, "rounded-away")
    return _told(program, sign) if sign is not None else None


def _told(program: Program, sign: Sign) -> Finding:
    name = optimizer_of(program.optimizers, sign)
    whose = folded(sign.parameters) or f"what {name} holds"
    dtype, rate, apart = str(sign.facts["dtype"]), float(sign.facts["rate"]), float(sign.facts["apart"])
    share = f"{100 * float(sign.facts['share']):.3g} %"
    made = shortened(program.sources, sign.parameters, program.names)
    step = f"adds less than half the gap to the next {dtype} number"
    spans = (
        *span_of("cause", made, f"{dtype} from here on"),
        *span_of("related" if made else "cause", sign.stack, step),
    )
    title = f"{dtype} rounds the updates of {whose} away"
    text = f"{opening(name)} adds each update in {dtype}. An update below half the gap to the next number is lost. "
    text += "Keep the parameters in float32 and compute under `torch.autocast`, or let the optimizer step a float32 "
    text += "copy."
    whole = "unmoved" in sign.facts
    note = "Updates down to a ten-millionth of a parameter then count; the forward pass still runs in 16 bits."
    remedies = (
        Remedy("keep_float32", "keep the parameters in float32, and compute under `torch.autocast`", "display", note),
    )
    because = f"in {sign.count} steps, {share} or more of the elements with a gradient did not change; {dtype} numbers "
    because += f"of their size are {apart:.2g} apart, and the learning rate is {rate:.3g}"
    weight = Proof.STEPS.at(0.9)
    if whole:  # that they stand still is seen; that the others, which move, are not enough is not
        weight = likely(0.6)
        title = f"{dtype} rounds every update of {whose} away: they never move"
        because = "more than 64 steps after the first, each of their elements is bit by bit what it was; they have "
        because += f"gradients, and the learning rate is {rate:.3g}"
    return Finding(*weight, title, text, tuple(spans), remedies=remedies, because=because)
