"""GD401: a gradient is differentiated again, but was computed without create_graph=True."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import takewhile

from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Event, Frame, Sign
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at
from graphdoc.program import bindings
from graphdoc.program.bindings import Flow, flow
from graphdoc.program.custom_functions import runs_backward
from graphdoc.program.exception import SECOND_TIME, events_before_failure
from graphdoc.program.gradient_reads import bare_read
from graphdoc.program.inner_gradient import Entered, entered, is_inner_step, is_second_order
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.spans import innermost_user, place, short_code, span_of, user_line, where
from graphdoc.remedies.reused_graph import keep_inner_graph
from graphdoc.source.module import is_method_call
from graphdoc.story.gradients import inner_only
from graphdoc.story.missing_graph import is_gradient, without_graph
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD401",
    title="A gradient is differentiated again, but it was computed without `create_graph=True`",
    families=("no-graph", "graph-reuse", "legacy", "silent"),
    what_happened="""\
A gradient is differentiated again: it became part of a loss (a gradient penalty, a path length, a force as the
derivative of an energy, the inner step of a meta-learner), or `torch.autograd.grad` is called on it directly (the
product of a Hessian and a vector, in a second-order optimizer's step). It was computed by `torch.autograd.grad(...)` or
by `backward()` followed by `p.grad`, without `create_graph=True`. Such a gradient is a plain tensor with the right
values and no history, so what is computed from it cannot be differentiated again.

If the loss has other terms, there is no error at all: the term made of gradients counts in the value of the loss, its
weight can be as large as one likes, and it adds nothing to the gradients of the parameters. Nor is there one where an
inner step, `p - lr * g`, goes into an outer loss: the initial `p` is trained (first order), and what enters the inner
loss alone, a learned loss or a learned weight of it, never gets a gradient.""",
    why="""\
The backward pass is itself a computation. By default PyTorch runs it without recording, because recording costs time
and keeps the whole graph alive. With `create_graph=True` the backward is recorded like a forward, and the gradients
that it returns have a `grad_fn`.

Without it `gradient.requires_grad` is False, and a loss of such gradients alone raises *element 0 of tensors does not
require grad and does not have a grad_fn*. There is a second face: the default also frees the graph, so a later
`backward()` of a loss that shares it says *Trying to backward through the graph a second time*. `retain_graph=True`
silences that and leaves the gradient a constant; `create_graph=True` retains the graph by itself. And a third: an
update written out, `p - lr * g`, depends on `p` and no longer on what `g` was computed from, so a gradient with respect
to that (example weights, a learning rate in the inner loss) says *not to have been used in the graph*.""",
    example="""\
score = critic(mixed)
gradient = torch.autograd.grad(score.sum(), mixed)[0]
penalty = ((gradient.norm(dim=1) - 1) ** 2).mean()
penalty.backward()""",
    use_instead="""\
score = critic(mixed)
gradient = torch.autograd.grad(score.sum(), mixed, create_graph=True)[0]
penalty = ((gradient.norm(dim=1) - 1) ** 2).mean()
penalty.backward()""",
    fix_safety="""\
Unsafe only in that it changes what is trained, as intended: the value of the loss stays, and the term now reaches the
parameters. Memory and time grow, since the backward is recorded too.

Use `torch.autograd.grad` for the inner gradient of a loss, not `backward(create_graph=True)`: that one writes
gradients with a graph into every `.grad`, which adds them to the gradients of the real loss and forms a reference
cycle that Python's collector has to find. PyTorch warns about the cycle once. An optimizer that reads `p.grad` and
differentiates it leaves no other way; `optimizer.zero_grad()`, which sets `.grad` to None, breaks the cycle.

In evaluation, where the gradient is only looked at, leave the flag off.""",
    not_this="""\
- `create_graph=True` is there, and the derivative is constant all the same: `constant-derivative`.
- *derivative for ... is not implemented*: the operation cannot be differentiated twice: `no-double-backward`.
- The inner step was taken by an optimizer, which records nothing: `unused-in-graph`.
- First order is a choice: an inner step without the flag is told only where something gets no gradient at all by it.
- The gradient was meant as a number (clipping, an adaptive weight, a statistic): detach it and look for the graph of
  the loss elsewhere.""",
    references=(
        "torch.autograd.grad",
        "torch.Tensor.backward",
        ("torch.func: gradients of gradients", "generated/torch.func.grad.html"),
    ),
)


def recognise(program: Program) -> Finding | None:
    """A loss without graph that was computed from a gradient without graph."""
    inner = first_sign(program.signs, "inner-only")
    if inner is not None and program.raised is None:
        return _inner_only(program, inner)
    if not without_graph(program.raised):
        return _step_without_graph(program) or _freed(program)
    cut = next((c for c in program.cuts if is_gradient(c)), None)
    event, sure = _event(program, cut)
    if (event is not None and event.create_graph) or (cut is None and not _is_alone(program, event)):
        return None
    at = user_line(event) or user_line(cut)
    proven = cut is not None
    return _finding(program, at, cut, 0.97 if proven else 0.65, proven and sure)


def _inner_only(program: Program, sign: Sign) -> Finding | None:
    """A run that went on: the outer loss trains nothing through the inner gradient."""
    found = inner_only(program, sign)
    remedies = _recorded(innermost_user(sign.stack), folded(sign.parameters))
    return replace(found, remedies=remedies) if found is not None else None


def _is_alone(program: Program, event: Event | None) -> bool:
    """Whether a gradient of this iteration is all that could explain the missing graph: no cut is known."""
    if program.cuts or event is None:
        return False
    return _same_iteration(program.evidence.events, program.failing, event)


def _finding(
    program: Program, frame: Frame | None, cut: Cut | None, strength: float, certain: bool, end: str = ""
) -> Finding:
    used = span_of("related", cut.stack, "the gradient is taken from here") if cut else ()
    at = f" at {where(frame)}" if frame else ""
    call = bindings.call_at(program.sources, frame)
    failed = program.failing
    again = failed is not None and failed.kind == "grad"
    end = end or (
        "What `torch.autograd.grad()` is to differentiate again has no graph, so there is nothing to go back through."
        if again
        else "The loss built from it has no graph, so no parameter can learn from it."
    )
    code = short_code(program.sources, frame)
    return Finding(
        *Proof.GRAPH_END.at(strength, certain),
        f"`{code}` runs without `create_graph=True`, and its gradient is differentiated again" if code else PAGE.title,
        f"The gradient computed{at} is a plain tensor: without `create_graph=True` the backward that made it was not "
        f"recorded. {end}",
        (*span_of("cause", frame, "this gradient has no graph"), *used, *program.raised_span(_NOTICED[again])),
        remedies=_with_graph(program, frame, cut, _note(call, again)) if frame is not None and call is not None else (),
    )


def _with_graph(program: Program, frame: Frame, cut: Cut | None, note: str) -> tuple[Remedy, ...]:
    """The flag, and the gradient itself in place of what is read of it without its graph."""
    flag = {"place": place(frame), "name": "create_graph", "value": "True"}
    title = "Compute this gradient with `create_graph=True`"
    stack = program.failing.stack if program.failing is not None else []
    bare = bare_read(program.sources, user_line(cut), stack)
    if bare is None:
        return (Remedy("set_keyword", title, "unsafe", note, flag),)
    at, name, gradient = bare
    if name:
        taken = edit_at("use_instead", at, operand=name, name=gradient)
        title = f"{title}, and take `{gradient}` in place of `{name}` at {where(at)}"
        note = f"{note} `{name}` holds the gradient's values alone."
    else:
        taken = edit_at("drop_call", at)
        title = f"{title}, and read it with its graph at {where(at)}"
    return (Remedy("several", title, "unsafe", note, {"edits": [{"kind": "set_keyword", "args": flag}, taken]}),)


def _recorded(frame: Frame | None, whose: str) -> tuple[Remedy, ...]:
    note = f"The gradient gets a graph, so the outer loss reaches {whose}. The inner step is differentiated as well "
    note += "(second order), which costs memory and time."
    title = "Compute this gradient with `create_graph=True`"
    return remedy_at(frame, "set_keyword", title, "unsafe", note, name="create_graph", value="True")


_NOTICED = {True: "it is differentiated again here", False: "the loss made from it arrives here"}


def _note(call: ast.Call | None, again: bool) -> str:
    to = "it can be differentiated again" if again else "the loss built from it reaches the parameters"
    note = f"The gradient gets a graph, so {to}."
    if is_method_call(call, "backward"):
        note += (
            " Each `.grad` then holds its graph until it is set to None, as `optimizer.zero_grad()` does; PyTorch "
            "warns of that cycle once."
        )
    return note


def _event(program: Program, cut: Cut | None) -> tuple[Event | None, bool]:
    """The journal's entry of the gradient, and whether it is surely that: the call of the cut's own place; for a
    ``p.grad`` the last backward that reaches ``p``, if no later one may have added to it."""
    before = [e for e in program.before_failure if e.kind in ("grad", "backward")]
    at = innermost_user(cut.stack) if cut else None
    same = [e for e in before if at and (f := innermost_user(e.stack)) and (f.file, f.line) == (at.file, at.line)]
    # A custom Function's backward may differentiate as well, below the same line: such a call is not that of the line.
    own = [e for e in same if not any(map(runs_backward, takewhile(lambda f: not f.user, reversed(e.stack))))]
    if same:
        return (own or same)[-1], True
    if cut is None or at is None:
        return next((e for e in reversed(before) if e.kind == "grad"), None), False
    journal, wanted = program.journal, set(cut.behind)
    sure = True
    for event in reversed([e for e in before if e.kind == "backward"]):
        reached = set(journal.reaches(event))
        if not reached or not wanted:
            sure = False
        if not reached or not wanted or reached & wanted:
            return event, sure
    return None, False


def _same_iteration(events: list[Event], failing_call: Event | None, event: Event) -> bool:
    """Whether no optimizer stepped between the gradient and the failure."""
    return not any(e.kind == "step" and e.index > event.index for e in events_before_failure(events, failing_call))


def _step_without_graph(program: Program) -> Finding | None:
    """The third face: an inner step is written out, and its gradient does not know on what it depended.

    What is asked for went into the loss of the inner gradient, and what that gradient gave went into the output.
    """
    failing, call_at = program.failing, program.raised_at
    if program.message("grad-input-unused") is None or failing is None or call_at is None:
        return None
    inputs = bindings.argument(bindings.call_at(program.sources, call_at), 1, "inputs")
    names = [n for n in bindings.names_in(inputs) if "." not in n]
    for event in reversed(program.before_failure):
        frame = innermost_user(event.stack)
        if event.kind == "step":
            return None
        if event.kind != "grad" or event.create_graph or frame is None:
            continue
        if entered(program.sources, event, None, call_at) is Entered.UNSEEN:
            continue
        starts = [
            bindings.frame_of(program.sources, frame.file, value)
            for name in names
            for _, value in bindings.assignments(program.sources, call_at, name)
        ]
        if any(flow(program.sources, start, frame) is Flow.YES for start in starts):
            return replace(_finding(program, frame, None, 0.9, False), covers="GD3")
    return None


def _freed(program: Program) -> Finding | None:
    """The second face: ``grad`` without ``create_graph`` freed the graph that the loss with its result needs."""
    if program.message(*SECOND_TIME) is None or program.evidence.from_text:
        return None
    freed = program.evidence.extras.get("freed_by")
    event = program.evidence.event(freed) if isinstance(freed, int) else None
    frame = innermost_user(event.stack) if event else None
    if event is None or frame is None or event.kind != "grad" or event.create_graph:
        return None
    loss, failing = program.raised_at, program.failing
    if loss is None or not _same_iteration(program.evidence.events, failing, event):
        return None
    again = user_line(failing)
    if again is not None and again.extent == frame.extent:
        return None  # one call in a loop: the same graph is walked again, for another input perhaps
    if failing is not None and is_second_order(program.sources, event, failing):
        # That the loss meets a graph which the call has freed is the same fault, and not another one.
        ways = keep_inner_graph(program.sources, failing, event)
        return replace(_finding(program, frame, None, 0.95, False, _FREED), remedies=ways, covers="GD1")
    way = entered(program.sources, event, failing, loss)
    if is_inner_step(program.sources, event) or way in (Entered.AS_NUMBER, Entered.UNSEEN):
        return None
    return _finding(program, frame, None, 0.94, False, _FREED)


_FREED = "The call also frees the graph that it goes through, and the loss built from its result needs that again."
