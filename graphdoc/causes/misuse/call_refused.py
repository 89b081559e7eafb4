"""GD509: PyTorch refuses a call in words that leave no doubt; what to do about it stands in a table."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.messages.recognise import Match
from graphdoc.messages.ways_out import WayOut, way_out
from graphdoc.program.bindings import argument, call_at, calls_named
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import moment, short_code, span, user_line
from graphdoc.remedies.open_derivatives import registered
from graphdoc.source.paths import is_constant, only

PAGE = Page(
    code="GD509",
    title="PyTorch refuses this call, and its message says why",
    families=("functorch", "compile", "optimizer", "ddp", "fsdp", "hooks", "custom-function"),
    what_happened="""\
A call asked for something that autograd, torch.func, torch.compile, an optimizer or a distributed wrapper does not
do. The message belongs to this one fault, and the place is the innermost line of your own code.

[docs/messages.md](../messages.md) has all of these messages, with what to do about each, and beside them those that are
PyTorch's own affair.""",
    why="""\
Each of these checks protects a gradient: from being wrong, from being lost, or from a graph that cannot be built.""",
    example="""\
def loss(params, x):
    value = functional_call(net, params, (x,)).square().mean()
    value.backward()  # torch.func.grad differentiates it already
    return value

grads = torch.func.grad(loss)(params, x)""",
    use_instead="""\
def loss(params, x):
    return functional_call(net, params, (x,)).square().mean()

grads = torch.func.grad(loss)(params, x)""",
    fix_safety="""\
Display: what to do is said in words, and nothing is edited.

Safe where the compiler could not trace a line and `fullgraph=True` made an error of that: without it, the line runs in
Python between two compiled parts.

A custom operator without a derivative gets one with placeholders: which of its inputs have a gradient is read from its
annotations, and each gradient is yours to write.""",
    not_this="""\
- A message that several faults can have leads to a cause of its own, such as `cut-by-detach` or `carried-state`.
- An ordinary wrong argument, such as a negative learning rate, is told in one line and is no fault of the graph.""",
    references=(("torch.func", "func.html"), ("Autograd mechanics", "notes/autograd.html")),
)


def recognise(program: Program) -> Finding | None:
    """A message with a way out and no cause of its own, raised in this run."""
    if program.evidence.from_text:
        return None
    found = next(((m, out) for m in program.messages if m.kind == "error" and (out := way_out(m.id))), None)
    if found is None or found[1].own or found[1].plain:
        return None
    return _told(program, *found)


def _told(program: Program, said: Match, out: WayOut) -> Finding | None:
    frame, means = program.raised_at, said.means
    if frame is None:
        return None
    setting = calls_named(program.sources, *out.calls) if out.calls else []
    setting = [f for f in setting if f.line != frame.line] if len(setting) == 1 else []
    call = short_code(program.sources, setting[0] if setting else frame)
    spans = [span("cause", f, "set up here") for f in setting]
    node = program.evidence.failing_node
    made = user_line(node)
    if made is not None:
        spans.append(span("created", made, "backward stops at what this made", moment(node)))
    title = f"PyTorch refuses {'what ' * bool(setting)}`{call}`{' set up' * bool(setting)}" if call else PAGE.title
    places = (*spans, span("failed" if setting else "cause", frame, "refused here"))
    remedies = registered(program, said.fields.get("op", "")) or (
        *_in_parts(program),
        Remedy("way_out", out.text, "display", out.more),
    )
    because = "PyTorch raises this message for this reason only"
    return Finding(*Proof.RAISED.at(0.2), title, means, places, remedies=remedies, because=because)


def _in_parts(program: Program) -> tuple[Remedy, ...]:
    """What the compiler cannot trace it leaves to Python, unless `fullgraph=True` forbids that."""
    if program.raised is None or program.raised.type.rpartition(".")[2] != "Unsupported":
        return ()
    compiled = library_calls(program.sources, "compile")
    whole = only([f for f in compiled if is_constant(argument(call_at(program.sources, f), 1, "fullgraph"), True)])
    note = "This line then runs in Python between two compiled parts. The numbers are the same."
    return remedy_at(whole, "drop_keyword", "leave out `fullgraph=True`", "safe", note, name="fullgraph")
