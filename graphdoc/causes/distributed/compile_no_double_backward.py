"""GD807: a gradient of a gradient goes through a part that torch.compile has compiled."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Finding
from graphdoc.program.bindings import argument, call_at
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span, span_of
from graphdoc.source.paths import path_of
from graphdoc.story.message_alone import of_message

PAGE = Page(
    code="GD807",
    title="Compiled code has no second derivative",
    families=("compile",),
    what_happened="""\
A gradient was computed with `create_graph=True` (a gradient penalty, a physics loss, a Hessian-vector product)
through a model that was wrapped with `torch.compile`, and that gradient is differentiated again. Without compilation
the same code works.""",
    why="""\
`torch.compile` traces the forward and the backward together and compiles each to one function. The compiled backward
is a node whose own derivative was never traced. It is connected to the graph so that the attempt is noticed, and
raises: *torch.compile with aot_autograd does not currently support double backward*. Compiled autograd says
*torch.compile does not currently support higher order gradients*.

The first derivative with `create_graph=True` still succeeds; the error comes from the second backward, often far away
from the compiled model.""",
    example="""\
critic = torch.compile(critic)
slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
(slope.norm(dim=1) - 1).square().mean().backward()""",
    use_instead="""\
fast = torch.compile(critic)  # for the forward passes that are differentiated once
slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
(slope.norm(dim=1) - 1).square().mean().backward()""",
    fix_safety="""\
Safe: the compiled and the plain module share their parameters, so the penalty can go through the plain one and all
else through the compiled one. Only speed is lost, and only there. The values agree up to rounding.

To switch compilation off for one call use `torch.compiler.set_stance("force_eager")` as a context, or keep a
reference to the module before it was compiled (`compiled._orig_mod`).

A function written with `torch.func.grad` *inside* of the compiled function can be compiled as a whole, if no gradient
crosses its boundary twice.""",
    not_this="""\
- *derivative for aten::..._backward is not implemented*: no compiler is involved: `no-double-backward`.
- *compiled with non-empty donated buffers*: `compile-donated-buffers`.""",
    references=("torch.compile", "torch.compiler.set_stance", "torch.autograd.grad"),
)


@of_message("aot-double-backward", "compile-higher-order")
def recognise(program: Program) -> Finding:
    """The compiled node's own refusal; the place is where the model was compiled."""
    compiled = library_calls(program.sources, "compile")
    what = argument(call_at(program.sources, compiled[0]), 0, "model") if len(compiled) == 1 else None
    name = path_of(what) if what is not None else ""
    first = next((e for e in reversed(program.before_failure) if e.create_graph), None)
    between = span_of("related", first.stack, "differentiated once here, with create_graph=True") if first else ()
    marks = [span("cause", f, "compiled here") for f in compiled[:2]]
    role = "related" if marks else "cause"
    title = f"`{name}` is compiled, and compiled code has no second derivative" if name else PAGE.title
    text = "`torch.compile` compiles the backward pass as well, and what it has compiled cannot be differentiated "
    text += "again. Call the uncompiled module for the part that is differentiated twice."
    spans = (
        *marks,
        *(between if role == "related" else tuple(span_of("cause", first.stack, "") if first else ())),
        *program.raised_span("differentiated a second time here"),
    )
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, spans)
