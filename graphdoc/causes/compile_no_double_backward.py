"""GD807: a gradient of a gradient goes through a part that torch.compile has compiled."""

from __future__ import annotations

from graphdoc.causes import links, names
from graphdoc.causes.base import Cause, Example, Finding, Page
from graphdoc.causes.reading import events_before_failure, raised_span, says, weight
from graphdoc.causes.spans import distinct, span, span_of
from graphdoc.evidence import Evidence

TITLE = "Compiled code has no second derivative"

PAGE = Page(
    what_happened="""\
A gradient was computed with `create_graph=True` (a gradient penalty, a physics loss, a Hessian-vector product)
through a model that was wrapped with `torch.compile`, and that gradient is differentiated again. Without compilation
the same code works.
""",
    why="""\
`torch.compile` traces the forward and the backward together and compiles each to one function. The compiled backward
is a node whose own derivative was never traced. It is connected to the graph so that the attempt is noticed, and
raises: *torch.compile with aot_autograd does not currently support double backward*. Compiled autograd says
*torch.compile does not currently support higher order gradients*.

The first derivative with `create_graph=True` still succeeds; the error comes from the second backward, often far away
from the compiled model.
""",
    example="""\
critic = torch.compile(critic)
slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
(slope.norm(dim=1) - 1).square().mean().backward()
""",
    use_instead="""\
fast = torch.compile(critic)  # for the forward passes that are differentiated once
slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
(slope.norm(dim=1) - 1).square().mean().backward()
""",
    fix_safety="""\
Safe: the compiled and the plain module share their parameters, so the penalty can go through the plain one and all
else through the compiled one. Only speed is lost, and only there. The values agree up to rounding.

To switch compilation off for one call use `torch.compiler.set_stance("force_eager")` as a context, or keep a
reference to the module before it was compiled (`compiled._orig_mod`).

A function written with `torch.func.grad` *inside* of the compiled function can be compiled as a whole, if no gradient
crosses its boundary twice.
""",
    not_this="""\
- *derivative for aten::..._backward is not implemented*: no compiler is involved: `no-double-backward`.
- *compiled with non-empty donated buffers*: `compile-donated-buffers`.
""",
    references=(
        ("torch.compile", "https://docs.pytorch.org/docs/stable/generated/torch.compile.html"),
        (
            "torch.compiler.set_stance",
            "https://docs.pytorch.org/docs/stable/generated/torch.compiler.set_stance.html",
        ),
        links.GRAD,
    ),
)

SICK = (
    Example(
        name="penalty-through-a-compiled-critic",
        code="""\
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
critic = torch.compile(net, backend="aot_eager")
mixed = torch.randn(5, 3, requires_grad=True)
slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
penalty = (slope.norm(dim=1) - 1).square().mean()
penalty.backward()
""",
        fails="does not currently support double backward",
        line='critic = torch.compile(net, backend="aot_eager")',
    ),
    Example(
        name="compiled-potential",
        code="""\
import torch


@torch.compile(backend="aot_eager")
def potential(points, stiffness):
    return (stiffness * (points**2).sum(-1).sin()).sum()


torch.manual_seed(0)
stiffness = torch.tensor(2.0, requires_grad=True)
points = torch.randn(6, 2, requires_grad=True)
forces = -torch.autograd.grad(potential(points, stiffness), points, create_graph=True)[0]
loss = (forces - torch.ones(6, 2)).square().mean()
loss.backward()
""",
        fails="does not currently support double backward",
        line='@torch.compile(backend="aot_eager")',
    ),
)

HEALTHY = (
    Example(
        name="one-derivative-of-compiled-code",
        code="""\
import torch


@torch.compile(backend="aot_eager")
def potential(points, stiffness):
    return (stiffness * (points**2).sum(-1).sin()).sum()


torch.manual_seed(0)
stiffness = torch.tensor(2.0, requires_grad=True)
points = torch.randn(6, 2, requires_grad=True)
forces = -torch.autograd.grad(potential(points, stiffness), points)[0]
print(forces.norm().item() > 0)
""",
    ),
    Example(
        name="penalty-through-the-plain-module",
        code="""\
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
fast = torch.compile(net, backend="eager")
mixed = torch.randn(5, 3, requires_grad=True)
slope = torch.autograd.grad(net(mixed).sum(), mixed, create_graph=True)[0]
loss = fast(mixed.detach()).mean() + (slope.norm(dim=1) - 1).square().mean()
loss.backward()
print(net[0].weight.grad.shape)
""",
    ),
)


def recognise(evidence: Evidence) -> Finding | None:
    """The compiled node's own refusal; the place is where the model was compiled."""
    if not says(
        evidence,
        "does not currently support double backward",
        "torch.compile does not currently support higher order gradients",
    ):
        return None
    strength, confidence = weight(evidence, 0.95)
    compiled = names.calls_named(evidence, "compile")
    first = next((e for e in reversed(events_before_failure(evidence)) if e.create_graph), None)
    between = (
        span_of("related", first.stack, "differentiated once here, with create_graph=True", evidence) if first else ()
    )
    marks = [span("cause", f, "compiled here", evidence) for f in compiled[:2]]
    role = "related" if marks else "cause"
    return Finding(
        strength,
        confidence,
        TITLE,
        "The backward of a compiled function is one compiled function, and nothing was traced for its derivative. "
        "Let the part "
        "that is differentiated twice go through the module as it was before `torch.compile`.",
        distinct(
            (
                *marks,
                *(
                    between
                    if role == "related"
                    else tuple(span_of("cause", first.stack, "", evidence) if first else ())
                ),
                *raised_span(evidence, "differentiated a second time here"),
            )
        ),
    )


CAUSE = Cause(
    code="GD807",
    slug="compile-no-double-backward",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("compile",),
    sick=SICK,
    healthy=HEALTHY,
)
