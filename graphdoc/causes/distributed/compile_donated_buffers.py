"""GD806: a compiled backward has given its saved buffers away, and the graph was to be kept."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Finding, remedy_at
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span_of
from graphdoc.story.message_alone import of_message

PAGE = Page(
    code="GD806",
    title="A compiled backward reuses its saved buffers, so its graph cannot be kept",
    families=("compile",),
    what_happened="""\
A part of the model runs through `torch.compile`, and `backward()` or `autograd.grad()` was called with
`retain_graph=True` or `create_graph=True`. The same code works without compilation.""",
    why="""\
The compiled backward is compiled when it is first called. If that call does not keep the graph, the compiler knows
that the saved tensors are needed once, and *donates* them: the backward writes its own results into their memory. A
later call with `retain_graph=True` would need them to survive, and this code has no version that leaves them alone:
*This backward function was compiled with non-empty donated buffers which requires create_graph=False and
retain_graph=False*.

So it depends on the order. A program whose first backward retains the graph is compiled without donation and runs;
one that does so later (a diagnostic every hundred steps, a regulariser that is switched on after a warm-up) fails
then.""",
    example="""\
model = torch.compile(net)
warm_up(model(x)).backward()  # the backward is compiled here, and may reuse its buffers
features = model(x)
loss_a(features).backward(retain_graph=True)
loss_b(features).backward()""",
    use_instead="""\
model = torch.compile(net)
warm_up(model(x)).backward()
features = model(x)
(loss_a(features) + loss_b(features)).backward()""",
    fix_safety="""\
Safe where two losses of one iteration are added: the gradients are the same as those of two calls without a step
between, and backward goes through the graph once.

Where the graph truly has to be kept (a gradient of one loss is looked at before the real backward), set
`torch._functorch.config.donated_buffer = False` before the first call of the compiled model. It costs memory and
changes no number. For `create_graph=True` this is not enough, since compiled code has no second derivative
(`compile-no-double-backward`): leave that part uncompiled.""",
    not_this="""\
- *does not currently support double backward*: `compile-no-double-backward`.
- `retain_graph=True` was added against *Trying to backward through the graph a second time*: look for that cause
  first, and take the flag out.""",
    references=("torch.compile", "torch.Tensor.backward"),
)


@of_message("aot-donated-buffers")
def recognise(program: Program) -> Finding:
    """The compiled function's own refusal; the place is the call that asks for the graph to be kept."""
    frame = program.raised_at
    event = program.failing
    call = bindings.call_at(program.sources, frame)
    asked = {k.arg for k in call.keywords} & {"retain_graph", "create_graph"} if call else set()
    flag = "create_graph" if "create_graph" in asked or (event and event.create_graph) else "retain_graph"
    text = "The compiled backward writes into the tensors that it saved, so they are gone after one call, and this one "
    text += f"asks for `{flag}=True`."
    title = "Take `retain_graph=True` out"
    note = "The graph is freed after this call; right if no later backward uses it, else add the losses."
    return Finding(
        *program.weight(0.95, Proof.RAISED.confidence),
        f"`{flag}=True` would keep a compiled graph, whose backward reuses its saved buffers",
        text,
        (*span_of("cause", frame, f"asks for {flag}=True of a compiled graph"), *program.raised_span("refused here")),
        remedies=remedy_at(
            frame if asked == {"retain_graph"} else None, "drop_keyword", title, "unsafe", note, name="retain_graph"
        ),
    )
