"""GD107: backward is called twice on the same tensor."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Event, Sign
from graphdoc.finding import Finding, remedy_at
from graphdoc.model import Span
from graphdoc.program.gradient_reads import gradients_are_given
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import apart, differentiated_in, innermost_user, moment, span, span_of, where
from graphdoc.remedies.recomputation import made_outside
from graphdoc.remedies.reused_graph import remedies_for
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.older_graph import call_name, facts_of, flow, names_of, several
from graphdoc.story.wording import optimizer_of

PAGE = Page(
    code="GD107",
    title="The same tensor is differentiated twice",
    families=("graph-reuse", "silent"),
    what_happened="""\
`backward()` or `torch.autograd.grad()` is called a second time on a tensor whose graph the first call has freed. The
two calls may stand far apart: one in a helper that "computes the loss" and one in the training loop; one plain and one
through a gradient scaler; one in a hook or a logging function that measures a gradient. Or one line runs several times
on one result: a gradient for each input, each class, each repetition of an inner loop that does not run the forward
pass again.""",
    why="""\
Calling backward frees the graph below the tensor, unless `retain_graph=True` was given, or `create_graph=True`, which
implies it where `retain_graph` is not set. A loss that has been differentiated is a number afterwards, as far as
autograd is concerned. To differentiate again, run the forward pass again.

Repeating a backward on a kept graph brings nothing new: the same gradients are computed again and added to `.grad`
again. No error tells, and a step behind both uses twice the gradient.""",
    example="""\
output = model(a, b)
grads = [torch.autograd.grad(output.sum(), x)[0] for x in (a, b)]""",
    use_instead="""\
output = model(a, b)
grads = torch.autograd.grad(output.sum(), (a, b))  # one walk for all inputs""",
    fix_safety="""\
- **Two calls by accident:** removing one is safe if nothing happens between them; keep the one that `zero_grad()` and
  `step()` surround. Both together, with the graph kept, would double the gradient.
- **A gradient for each of several inputs:** ask for all of them in one call. Safe, and cheaper.
- **Several steps on one batch:** move the forward pass into the inner loop, so that each step sees the new weights.
  Unsafe: it changes the training, to what was probably meant.
- **Several gradients of one graph, and no step between them** (each row of a Jacobian, the norm of one term's gradient
  before the real backward): this is where `retain_graph=True` belongs, on all calls but the last. Safe.
- **An inner `autograd.grad`, and its loss is a term of the outer one:** `retain_graph=True` on the inner call leaves
  its result a number (first order); `create_graph=True` lets the outer loss differentiate through it as well (second
  order, what MAML is defined with). Unsafe, since the two train differently.""",
    not_this="""\
- Two *different* losses, one common forward pass: `shared-subgraph-losses`.
- The tensor has grown in between: `accumulated-loss`.
- The call stands once in the program and fails in a later iteration: `carried-state`, `graph-built-once`.
- A gradient is differentiated, and the first call had no `create_graph=True`: `missing-create-graph`.""",
    references=("torch.Tensor.backward", "torch.autograd.grad"),
)


def recognise(program: Program) -> Finding | None:
    """The journal: two calls on the very same root. Certain where it has the number of that root, or a term of it."""
    sign = first_sign(program.signs, "added-twice")
    return _added_twice(program, sign) if sign is not None else _of_one_result(program)


@of_older_graph(PAGE.title)
def _of_one_result(program: Program, reuse: Reuse) -> Finding | None:
    if reuse.lifetime is not Lifetime.RESULT or reuse.failing is None or not reuse.used_up:
        return None
    if reuse.carries and reuse.inner:
        return _term(program, reuse)
    again = reuse.counts_again and not reuse.adds_nothing and not reuse.from_one_root
    return (_counted_again if again else _root)(program, reuse, reuse.failing)


def _added_twice(program: Program, sign: Sign) -> Finding | None:
    """No call has failed, and a step has used what both have added."""
    if gradients_are_given(program.sources):
        return None
    again, before = apart(sign.stack, sign.other)
    frame = innermost_user(again)
    note = "the step uses the gradient of its loss once"
    remedy = "remove the second backward call"
    title = f"backward runs twice on one loss: {optimizer_of(program.optimizers, sign)} steps by twice its gradient"
    text = "`backward()` adds to `.grad`. Between the two calls nothing used the gradients or set them to None or zero."
    spans = (
        *span_of("cause", again, "adds the same gradients again"),
        *span_of("related", before, "has added them already"),
    )
    remedies = remedy_at(frame, "delete_statement", remedy, "unsafe", note)
    because = f"at {sign.count} steps the gradient was the sum of what two calls on the same loss had added"
    return Finding(*Proof.STEPS.at(0.95), title, text, spans, remedies=remedies, because=because)


def _root(program: Program, reuse: Reuse, failing: Event) -> Finding:
    second, first = apart(failing.stack, reuse.freeing.stack if reuse.freeing is not None else [])
    failed = span_of("cause", second, "differentiates a result that was differentiated before")
    kept = reuse.freeing is not None and reuse.freeing.retain_graph
    # Of two different lines the one that let the graph go is as much to look at as the one that missed it.
    made = _made(program, reuse)
    more = reuse.calls_before > 1
    text = f"{'an earlier' if more else 'the first'} call on this result {'frees' if made else 'freed'} its graph"
    freed = span_of("freed" if kept or made else "cause", first, text, moment(reuse.freeing))
    failed = made or failed
    weight = Proof.OLDER_EDGE.at(0.94, reuse.from_one_root and failing.root_output >= 0)
    title = _title(program, reuse)
    text = f"{_what(reuse, call_name(failing))}. Every call frees the graph that it went through unless it is told to "
    text += "keep it."
    spans = (
        *failed,
        *freed,
        *span_of("failed", second, f"{'a further' if more else 'the second'} call on the same result", moment(failing)),
    )
    return Finding(*weight, title, text, spans, remedies=remedies_for(program, reuse), because=_because(reuse))


def _made(program: Program, reuse: Reuse) -> tuple[Span, ...]:
    """Where the result is computed, if that is before a loop which differentiates it in each round."""
    made = made_outside(program, reuse) if reuse.same_line else None
    if made is None or not any(r.kind == "move_into_loop" for r in remedies_for(program, reuse)):
        return ()
    text = "computed once, with a graph that serves one backward call"
    return (span("cause", made, text, moment(program.node(program.evidence.root))),)


def _what(reuse: Reuse, call: str) -> str:
    if reuse.from_one_root:
        return f"This {call} starts from the same tensor as an earlier call"
    if reuse.only_scaled:
        name = names_of(reuse.earlier_roots, 1) or "the tensor"
        return f"This {call} starts from {name} times a factor, and an earlier call from {name} itself"
    if reuse.adds_nothing:
        return f"This {call} starts from a sum of losses that earlier calls have differentiated, and of nothing else"
    return f"An earlier call has differentiated this result already: only the line of this {call} was computed again"


def _because(reuse: Reuse) -> str:
    if not reuse.from_one_root:
        if reuse.only_scaled:
            return "the earlier call started from the same tensor, and only a factor has been applied to it since"
        fresh = "the sum" if reuse.adds_nothing else "the line of the call itself"
        return f"nothing but {fresh} was computed since the earlier call"
    op = reuse.failing.root_op if reuse.failing is not None else ""
    return f"both calls start from the same tensor ({op})" if op else ""


def _title(program: Program, reuse: Reuse) -> str:
    """The result by the expression that is differentiated, or by its name where the second call scales it."""
    name = names_of(reuse.earlier_roots, 1) if reuse.only_scaled else ""
    if name:
        return f"{name} is differentiated twice, and the first call frees its graph"
    what = differentiated_in(program.sources, reuse.failing.stack) if reuse.failing is not None else ""
    if not what or "\n" in what or len(what) > 60:
        return PAGE.title
    if reuse.calls_before > 1:
        return f"`{what}` is differentiated again, and an earlier call has freed its graph"
    return f"`{what}` is differentiated twice, and the first call frees its graph"


def _counted_again(program: Program, reuse: Reuse, failing: Event) -> Finding:
    """The loss has terms that calls of their own have differentiated in the same pass."""
    terms = names_of(reuse.earlier_roots)
    plural = several(terms)
    first = [
        s
        for e in reuse.earlier_calls[:2]
        for s in span_of("cause", e.stack, "differentiates a term of the loss by itself", moment(e))
    ]
    text = f"Earlier calls have differentiated {terms or 'terms of this loss'} and freed "
    text += f"{'their' if plural else 'its'} graph; the loss of this {call_name(failing)} contains "
    text += f"{'them' if plural else 'it'} again. With the graph kept, the same gradient would count twice."
    return Finding(
        *Proof.OLDER_EDGE.at(0.94),
        f"{terms} {'are' if plural else 'is'} differentiated alone and again as {'parts' if plural else 'a part'} "
        "of this loss"
        if terms
        else PAGE.title,
        text,
        (*first, *flow(reuse), *span_of("failed", failing.stack, "goes through the same graph again", moment(failing))),
        facts_of(program, reuse),
        remedies_for(program, reuse),
        because=f"{terms or 'a term of this loss'}: an earlier call started there; no optimizer steps in between",
    )


def _term(program: Program, reuse: Reuse) -> Finding:
    """``autograd.grad`` has differentiated something that the loss contains as a term."""
    assert reuse.failing is not None and reuse.freeing is not None
    frame = innermost_user(reuse.freeing.stack)
    name = names_of(reuse.carries, 2)
    is_part = "are also parts" if several(name) else "is also a part"
    terms = [
        s
        for c in reuse.values[:2]
        if (n := c.taken) is not None
        for s in span_of(
            "cause", n.stack, f"{name or 'the same tensor'} enter{'' if several(name) else 's'} this loss", moment(n)
        )
    ]
    title = f"autograd.grad frees the graph of {name}, which {is_part} of this loss" if name else PAGE.title
    text = f"The autograd.grad call at {where(frame)} differentiates {name or 'a tensor'} and frees that graph, which "
    text += f"{is_part} of the loss, whose {call_name(reuse.failing)} goes through that graph again. An inner call "
    text += "whose graph is needed later has to keep it."
    spans = (
        *span_of("cause", reuse.freeing.stack, "frees the graph, which the loss still needs", moment(reuse.freeing)),
        *terms,
        *flow(reuse),
        *span_of("failed", reuse.failing.stack, "goes through the same graph again"),
    )
    facts = facts_of(program, reuse)
    because = f"the call at {where(frame)} went through what this loss contains, without retain_graph=True"
    return Finding(*Proof.OLDER_EDGE.at(0.94), title, text, spans, facts, remedies_for(program, reuse), because=because)
