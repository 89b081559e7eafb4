"""GD307: autograd.grad was asked for a tensor that the output does not depend on."""

from __future__ import annotations

from dataclasses import replace

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Confidence, Role, Span
from graphdoc.program import bindings
from graphdoc.program.asked_gradients import Beside, Reason, of_another_output, step_between, unreached_input
from graphdoc.program.custom_functions import Idle, asked_names, idle_argument
from graphdoc.program.gradient_reads import first_derivative
from graphdoc.program.modules_in_source import left_alone
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.refused_writes import written_from
from graphdoc.program.spans import innermost_user, span, where
from graphdoc.remedies.recording import connecting, of_reason, zeros
from graphdoc.story import gradients as story

PAGE = Page(
    code="GD307",
    title="The output does not depend on a tensor whose gradient was asked for",
    families=("no-graph",),
    what_happened="""\
`torch.autograd.grad(output, inputs)` was given an input that requires gradients, and no way leads from the output
back to it. The two are connected in the author's mind, not in the graph. Typical reasons:

- the tensor was made and then dropped: a closure ignores its argument, a `forward` uses the original instead of the
  perturbed copy, a head or branch was not taken for this batch;
- *another object with the same values* went into the forward: `x.clone().requires_grad_()` was called and the result
  asked about, while the model got `x`; `x.view(-1)` or `x[0]` taken after the forward is a new tensor, too;
- the way is cut in the middle: by a detach, by NumPy, or by `optimizer.step()`, which writes new parameters in place
  under `no_grad` and leaves no trace of the gradients that it used.""",
    why="""\
A derivative with respect to something that does not occur is zero in mathematics. In a program it is nearly always a
mistake, so PyTorch refuses: *One of the differentiated Tensors appears to not have been used in the graph*, in newer
versions with the index of the input. What counts is the identity of the tensor object, not its values or its name.

`backward()` does not complain in this situation. It leaves `.grad` of such a tensor at None, and an optimizer skips
it.""",
    example="""\
noise = torch.zeros_like(embedding).requires_grad_()
score = model(lambda e: encoder(tokens), embedding + noise)  # the lambda drops its argument
direction = torch.autograd.grad(score, noise)[0]""",
    use_instead="""\
noise = torch.zeros_like(embedding).requires_grad_()
score = model(lambda e: encoder(e), embedding + noise)
direction = torch.autograd.grad(score, noise)[0]""",
    fix_safety="""\
Unsafe, and it cannot be done at the failing line: the connection has to be made where it is missing, or the input
taken out of the list.

`allow_unused=True`, which the message itself suggests, returns None for that input. That is right only when the
output truly may not depend on it (an optional branch), and the code after it expects None. In most programs it moves
the failure to the next line, as a `TypeError`, or into a term that is silently left out. `materialize_grads=True`
returns zeros instead, with the same warning. It is proposed where the run shows that one list of inputs serves two
outputs: some of them are in this one, and the missing one is in another.

For a learning step that has to be differentiated (meta-learning, learned weights), an optimizer cannot be used: write
the update as `p - lr * g` with `create_graph=True` and run the network on it with `torch.func.functional_call`.""",
    not_this="""\
- The output is itself a derivative and really does not depend on the input any more, as the second derivative of a
  linear function: `constant-derivative`.
- The input does not require gradients; then the message is *does not require grad*: `input-needs-grad`.
- A reentrant checkpoint hides its parameters from `autograd.grad`: use `use_reentrant=False`.
- The output has no graph at all: *element 0 of tensors ...*, see the `cut-by-...` causes.""",
    references=("torch.autograd.grad", "torch.func.functional_call", ("torch.utils.checkpoint", "checkpoint.html")),
)


def recognise(program: Program) -> Finding | None:
    """PyTorch names the input by its index; the reason is looked for in the journal and in the source.

    That the input is not in the graph is certain; a reason that only the source suggests is not.
    """
    found = program.message("grad-input-unused")
    if found is None or _is_derivative(program):
        return None
    at = found.fields.get("index")
    another = of_another_output(program, int(at) if at else None)
    if another is not None:
        told = story.of_another(another)
        return _tell(program, another.name, at, True, *told, zeros(program.raised_at, _quoted(another.name)))
    return _by_reason(program, at)


def _is_derivative(program: Program) -> bool:
    """Whether what is differentiated is a derivative by the same input, which is constant: nothing was forgotten."""
    frame, evidence = program.raised_at, program.evidence
    return frame is not None and bool(first_derivative(evidence.sources, evidence.events, evidence.failing_call, frame))


def _by_reason(program: Program, at: str | None) -> Finding:
    """What was seen or found to keep the input out of the graph; else that it is not in it."""
    frame = program.raised_at
    name, cut = _input_name(program, frame, at), _cut_by_writing(program, frame)
    reason = unreached_input(program) if not cut else None
    if reason is not None:
        return _finding(program.sources, frame, name, reason, program.weight(0.85, Proof.RAISED.confidence))
    idle = idle_argument(program.sources, frame)
    guessed = bool(cut or idle or step_between(program))
    alone = left_alone(program, name) if not guessed else None
    if alone is not None:
        return _tell(program, name, at, True, *story.of_unread(*alone), zeros(frame, _quoted(name)))
    finding = _tell(program, name, at, not guessed, *_why(program, idle, cut), connecting(program, idle, cut))
    written = (
        f"what is computed from it is written through `.data` at {where(cut[0])}, without its graph" if cut else ""
    )
    return replace(finding, because=written)


def _tell(
    program: Program,
    name: str,
    at: str | None,
    proven: bool,
    marks: tuple[Span, ...],
    why: str,
    remedies: tuple[Remedy, ...],
) -> Finding:
    """The call that asks, where the input is made, and what the output depends on instead."""
    frame, known, reaches = program.raised_at, program.tensor_named(name), program.evidence.reaches
    label = f"{_quoted(name)} is not in the graph of the output"
    here = (span("cause", frame, label),) if frame else program.raised_span("noticed here")
    made: tuple[Span, ...] = ()
    if known and known.made:
        made = (span("created", known.made, f"{_quoted(name)} is made here"),)
    facts = (f"input number {int(at) + 1} of the call (index {at}) is not reached",) if at else ()
    if reaches:
        facts = (*facts, f"the output depends on {', '.join(reaches[:5])}{' …' if len(reaches) > 5 else ''}")
    title = f"{_quoted(name)} is not in the graph of the output, but its gradient is asked for"
    text = f"No path leads from the output back to {_quoted(name)}. {why}"
    spans = (*marks, *made, *here)
    return Finding(*program.weight(0.85, Proof.RAISED.where(proven)), title, text, spans, facts, remedies)


def _finding(
    sources: SourceTexts, frame: Frame | None, name: str, reason: Reason, weight: tuple[float, Confidence]
) -> Finding:
    """The run itself has shown why no way leads to the input."""
    told = story.told_of(_quoted(name), reason)
    role: Role = "cause" if isinstance(reason, Beside) and frame and frame.line != reason.made.line else "failed"
    here = () if frame is None else (span(role, frame, "its gradient is asked for here"),)
    title = f"{_quoted(name)} is not in the graph of the output, but its gradient is asked for"
    text = f"No path leads from the output back to {_quoted(name)}. {told.why}"
    spans = (*told.marks, *here)
    return Finding(*weight, title, text, spans, remedies=of_reason(sources, frame, reason), because=told.because)


def _cut_by_writing(program: Program, frame: Frame | None) -> list[Frame]:
    """The writes through ``.data`` of what was computed from the input, at most three."""
    wanted = asked_names(program.sources, frame) - {"parameters", "values", "list", "tuple"}
    stack = program.failing.stack if program.failing is not None else []
    return written_from(program.sources, wanted, stack)[:3] if wanted else []


def _quoted(name: str) -> str:
    return f"`{name}`" if name else "this input"


def _input_name(program: Program, frame: Frame | None, index: str | None) -> str:
    """The input as the call writes it, else by the name that the run knew it by; empty where neither is there."""
    inputs = bindings.argument(bindings.call_at(program.sources, frame), 1, "inputs")
    elements = getattr(inputs, "elts", None)
    number = int(index) if index is not None else None
    if elements is not None:
        return bindings.text_of(elements[number]) if number is not None and number < len(elements) else ""
    extras = program.evidence.extras
    if extras.get("inputs", 1) <= 1:
        return bindings.text_of(inputs)
    asked = extras.get("asked") or ()
    return str(asked[number]) if number is not None and number < len(asked) else ""


def _why(program: Program, idle: Idle | None, cut: list[Frame]) -> tuple[tuple[Span, ...], str]:
    """The likeliest reason that the run or its source shows, with its place."""
    if cut:
        label = "a write through `.data` takes the numbers without the graph"
        return tuple(span("cause", f, label) for f in cut), (
            f"What is computed from it is stored through `.data` at {where(cut[0])}. Autograd does not record that: "
            "no graph leads back from the tensors with its numbers."
        )
    step = step_between(program)
    frame = innermost_user(step.stack) if step else None
    if frame:
        return (
            (span("cause", frame, "the step writes new parameters in place and carries no graph"),),
            "An optimizer stepped before this call. A step changes the parameters in place under `no_grad`, so they "
            "have no graph that leads back to the gradients. Write out a step that is to be differentiated, with "
            "`create_graph=True`.",
        )
    if idle is not None:
        function, argument, place = idle
        return (
            (span("cause", place, f"`{argument}` is taken by this function and never used"),),
            f"The function `{function}` takes `{argument}` and does not use it, so what is passed to it ends there.",
        )
    return (), (
        "Either the output does not use it, or a copy of it went into the forward, or a `detach()` lies in between. "
        "A tensor of the same values, or of the same name, is not the same tensor."
    )
