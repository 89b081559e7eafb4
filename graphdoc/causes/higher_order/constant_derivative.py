"""GD403: a derivative is constant, so it truly does not depend on the input, and PyTorch takes that for a mistake."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign
from graphdoc.finding import Finding, remedy_at
from graphdoc.program import bindings
from graphdoc.program.gradient_reads import first_derivative
from graphdoc.program.observed import Program
from graphdoc.program.proof import first_sign, likely
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.story.missing_graph import is_gradient, without_graph

LONGEST = 30
"""Characters of an argument that a title has room for."""

PAGE = Page(
    code="GD403",
    title="The derivative is constant, so nothing depends on the input any more",
    families=("no-graph", "silent"),
    what_happened="""\
A derivative was computed with `create_graph=True`, as it should be, and differentiated again with respect to the same
input. The function is linear in that input: its derivative is the same everywhere. So the second derivative is zero,
and in the graph of the first derivative the input does not occur.

It comes with the simplest test functions (`w * x`, a network of linear layers alone), with a regulariser that is
linear in one of several inputs, with an energy in which some terms do not depend on positions, and in a loop over
many functions of which one happens to be linear.""",
    why="""\
For `y = w * x` the backward computes `w * 1`: a graph that contains `w` and not `x`. `torch.autograd.grad` of that
with respect to `x` raises *One of the differentiated Tensors appears to not have been used in the graph*. For `y = 2
* x` the derivative contains no tensor with a gradient at all, and the message is *element 0 of tensors does not
require grad and does not have a grad_fn*, in spite of `create_graph=True`.

PyTorch cannot tell a derivative that is zero from a tensor that was forgotten, so it asks the author to say which it
is. A network with `relu` is linear in pieces: its second derivative is zero as well, but the input takes part in the
graph, so zeros come back and there is no error. Where a loss is computed from them, this part of it trains nothing.""",
    example="""\
y = (w * x).sum()
dy = torch.autograd.grad(y, x, create_graph=True)[0]  # equals w, wherever x is
d2y = torch.autograd.grad(dy.sum(), x)[0]""",
    use_instead="""\
y = (w * x).sum()
dy = torch.autograd.grad(y, x, create_graph=True)[0]
d2y = torch.autograd.grad(dy.sum(), x, materialize_grads=True)[0]  # zeros where x does not occur""",
    fix_safety="""\
Safe if the function is known to be linear in this input: zero *is* the derivative. This is the one situation in which
`allow_unused=True` (None instead of zeros) or `materialize_grads=True` is right.

Both also silence a tensor that was left out by mistake. Look at the function first; if it should not be linear, the
input was lost on the way (`unused-in-graph`).

Where a network of straight pieces (`relu`, `leaky_relu`, `hardtanh`) has to have a second derivative, give it an
activation that bends: `tanh`, `silu`, `softplus`. That is another model, so it is unsafe, and no patch is offered.

If the first derivative has no graph at all, `materialize_grads=True` does not help, because there is no output to
start from: test `dy.requires_grad` and use `torch.zeros_like(x)`. `torch.func.hessian` and
`torch.autograd.functional.hessian` (without `strict=True`) return zeros in both cases.""",
    not_this="""\
- The first derivative was computed without `create_graph=True`: `missing-create-graph`.
- The failing call is the *first* derivative: then the input is not part of the computation: `unused-in-graph`.""",
    references=("torch.autograd.grad", "torch.func.hessian", "torch.autograd.functional.hessian"),
)


def recognise(program: Program) -> Finding | None:
    """A grad call that differentiates, by the same input, what an earlier grad call returned with a graph; or that
    gives zeros to a loss."""
    zero = first_sign(program.signs, "unbent")
    if zero is not None:
        return _unbent(zero)
    unused, failing, evidence = program.message("grad-input-unused"), program.failing, program.evidence
    here = innermost_user(failing.stack) if failing is not None and failing.kind == "grad" else None
    if evidence.from_text or here is None or not (unused or without_graph(program.raised)):
        return None
    first = first_derivative(evidence.sources, evidence.events, evidence.failing_call, here)
    if first is None or any(not is_gradient(c) for c in program.cuts):
        return None
    return _told(program, here, first)


def _told(program: Program, here: Frame, first: Frame) -> Finding:
    remedy = remedy_at(
        here if program.message("grad-input-unused") else None,
        "set_keyword",
        "Ask for zeros where the derivative does not depend on the input",
        "unsafe",
        "A derivative that is constant then has the derivative zero; a forgotten input would be silenced as well.",
        name="materialize_grads",
        value="True",
    )
    call = bindings.call_at(program.sources, here)
    of, by = (bindings.text_of(bindings.argument(call, i, k)) for i, k in enumerate(("outputs", "inputs")))
    named = 0 < len(of) <= LONGEST and 0 < len(by) <= LONGEST
    noticed = program.raised_span("noticed here")
    return Finding(
        *likely(0.93),
        f"`{of}` is a derivative that no longer depends on `{by}`" if named else PAGE.title,
        "What is differentiated here is itself a derivative with respect to the same input, computed with "
        "`create_graph=True`. The input does not occur in it: the function is linear in this input, and the second "
        "derivative is zero.",
        (
            span("cause", here, "the input does not occur in this derivative"),
            span("related", first, "the first derivative, with a graph"),
            *(s for s in noticed if (s.file, s.line) != (here.file, here.line)),
        ),
        remedies=remedy,
    )


def _unbent(sign: Sign) -> Finding | None:
    users = [f for f in sign.stack if f.user]
    if not users:
        return None
    what = sign.facts["op"][:-1].removesuffix("Backward").replace("Relu", "ReLU")
    outside = [f for f in users[:-1] if f.line != users[-1].line]
    return Finding(
        *likely(0.95),  # that it is zero is measured; that a loss was to depend on it is not
        "a second derivative in the loss is zero everywhere, and trains nothing",
        f"The network is made of straight pieces (`{what}`), and a straight line has no second derivative. What the "
        "loss is computed from is exactly zero, and so is the gradient of this part for all parameters. Give the "
        "network an activation that bends: `tanh`, `silu` or `softplus`.",
        (
            *(span("cause", f, "this second derivative is zero in all elements") for f in users[-1:]),
            *(span("cause", f, "computed here") for f in outside[-1:]),
            *span_of("cause", sign.other, f"`{what}` bends nowhere but in single points"),
            *(span("consumed", Frame(**f), "this loss is computed from it") for f in sign.facts["backward"]),
        ),
        because=f"in {sign.count} of {sign.count} losses that were looked at, it was exactly zero, and had a graph",
    )
