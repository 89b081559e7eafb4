"""GD715: an optimizer is given parameters by name, and what is computed from them goes into no loss."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import LEFT_OUT, Sign
from graphdoc.finding import Finding
from graphdoc.program.cuts import given_by_name
from graphdoc.program.observed import Program
from graphdoc.program.proof import first_sign, name_of
from graphdoc.program.spans import span_of
from graphdoc.story.wording import folded, opening, optimizer_of

PAGE = Page(
    code="GD715",
    title="What an optimizer's parameters compute goes into no loss",
    families=("silent",),
    what_happened="""\
A network runs in every iteration, its optimizer steps, and no loss depends on what it gives. The name of its loss is
bound to another one before `backward()`, a term was forgotten in the sum, or the loss takes another output. Its
parameters never get a gradient and keep their initial values.""",
    why="""\
`backward()` reaches what its loss was made of and nothing else. A result of which no loss is made is no error: its
graph is let go with it. `step()` leaves out every parameter whose `.grad` is None.""",
    example="""\
loss = F.mse_loss(decoder(code), x)
loss = F.cross_entropy(classifier(code), labels)  # the first one is gone
optimizer.zero_grad()
loss.backward()
optimizer.step()""",
    use_instead="""\
loss = F.mse_loss(decoder(code), x)
loss = loss + F.cross_entropy(classifier(code), labels)
optimizer.zero_grad()
loss.backward()
optimizer.step()""",
    fix_safety="""\
Display only: how much the result is to count in the loss is for the author to say. If the network is not to learn in
this run, leave it out of the optimizer.""",
    not_this="""\
- The loss depends on them and they get no gradient: `cut-by-detach`, `cut-by-conversion`, `cut-by-no-grad`,
  `nondifferentiable-op`.
- The whole optimizer never finds a gradient: `steps-without-gradient`.
- The loss reaches them and no optimizer has them: `parameters-never-reached`.""",
    references=(links.OPTIM, "torch.Tensor.backward"),
)


def recognise(program: Program) -> Finding | None:
    """Measured: no loss moves with them. The optimizer was given them by name, or in a group of their own: they were to
    learn."""
    sign = first_sign(program.signs, LEFT_OUT)
    if sign is None:
        return None
    if not sign.facts["apart"] and not given_by_name(program, sign.parameters, name_of(program.optimizers, sign)):
        return None
    return _told(program, sign)


def _told(program: Program, sign: Sign) -> Finding:
    whose, name = folded(sign.parameters), optimizer_of(program.optimizers, sign)
    return Finding(
        0.6,
        "likely",  # that no loss depends on them is measured; that one should is not
        f"no loss depends on {whose}, which {name} is to train",
        f"{opening(name)} holds {whose}. They compute a result in every iteration, and no loss is made of it. They "
        "never get a gradient. Add it to the loss, or leave them out of the optimizer.",
        (
            *span_of("cause", sign.stack, "computed here, and no loss is made of it", program.sources),
            *span_of("related", sign.other, "differentiates a loss that does not depend on it", program.sources),
        ),
        because=f"at {sign.count} steps {whose} were moved, and no loss changed; none had a gradient in the whole run",
    )
