"""GD311: the gradient of a parameter is read, and it is None."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Finding
from graphdoc.program.asked_gradients import Unset, Why, unset_gradient
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.remedies.gradients import remedies_for
from graphdoc.story.gradients import because, explanation, title

PAGE = Page(
    code="GD311",
    title="The gradient of a parameter is read, and it is None",
    what_happened="""\
The program goes over its parameters and uses `p.grad`: it sums up their norms, joins them in one vector, clamps or
scales them, sends them to other processes. For one of them `.grad` is None, and Python says that `None` has no `norm`,
`data`, `view` or `zero_`, or cannot be multiplied.

- The loss does not depend on that parameter: a head or branch that was not taken, a critic in a network whose policy
  loss goes through the actor alone.
- The gradients were cleared after the last backward call.
- No backward call has been made yet: a loop that begins with `w.grad.zero_()`.
- The parameter is frozen.""",
    why="""\
`.grad` is None until a backward call that reaches the parameter fills it. Since PyTorch 2.0 `zero_grad()` sets it back
to None, where it used to fill it with zeros (`set_to_none=True` is the default). A program that was written before then
and that clears between two losses met zeros in the parameters that the second loss does not reach; it meets None now.
PyTorch itself leaves such parameters out: an optimizer does not step them, `clip_grad_norm_` does not count them.""",
    example="""\
optimizer.zero_grad()
policy_loss.backward()  # reaches the actor alone
vector = torch.cat([p.grad.view(-1) for p in actor_critic.parameters()])""",
    use_instead="""\
optimizer.zero_grad()
policy_loss.backward()
vector = torch.cat(
    [(torch.zeros_like(p) if p.grad is None else p.grad).view(-1) for p in actor_critic.parameters()]
)""",
    fix_safety="""\
Safe: a parameter without a gradient counts with zeros, or is left out; all others stay as they are. Ask first whether
it was to learn from this loss. If it was, the way to it is missing, and that is the fault.

`zero_grad(set_to_none=False)` brings the zeros back, but only where there has been a gradient before, and then the
optimizer steps those parameters by a gradient of zero: momentum and weight decay move them.""",
    not_this="""\
- The tensor is data, not a parameter: `input-needs-grad`.
- The tensor is the result of an operation: `grad-of-non-leaf`.
- The name was bound again to the result of its own update: `non-leaf-parameter`.
- Nothing fails, and a module never learns: `parameters-never-reached`.""",
    references=("torch.optim.Optimizer.zero_grad", "Tensor.grad"),
)


def recognise(program: Program) -> Finding | None:
    """A failure on None right where ``.grad`` of a known parameter is read, and why nothing has filled it."""
    unset = unset_gradient(program)
    return _told(program, unset) if unset is not None else None


def _told(program: Program, unset: Unset) -> Finding:
    had = unset.why is Why.CLEARED or (unset.why is Why.LEFT_OUT and unset.last is not None)
    clear = unset.clear.stack if unset.clear is not None and had else []
    early = unset.why is Why.CLEARED and innermost_user(clear) is not None
    spans = [
        *span_of("cause" if early else "related", clear, "sets it to None"),
        span("failed" if early else "cause", unset.read, f"is None for `{unset.parameter.name}`"),
    ]
    missed = "does not reach it" if unset.proven else "does not seem to reach it"
    for c in unset.calls[-2:]:
        spans += span_of("related", c.stack, "reaches it" if c is unset.last else missed)
    if unset.last is not None and unset.last not in unset.calls[-2:]:
        spans += span_of("related", unset.last.stack, "an earlier call that reaches it")
    text = explanation(unset)
    facts = (f"it has requires_grad={unset.parameter.requires_grad} and grad=None",)
    remedies = remedies_for(program, unset)
    return Finding(
        *Proof.NODE.at(0.94, unset.proven), title(unset), text, tuple(spans), facts, remedies, because=because(unset)
    )
