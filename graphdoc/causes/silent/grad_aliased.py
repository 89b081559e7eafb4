"""GD703: a gradient that was kept is still the parameter's own, and what clears or adds to one changes both."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Sign
from graphdoc.finding import Finding, Remedy, edit_at
from graphdoc.program.gradient_reads import KeptGradients, read_on
from graphdoc.program.observed import Program
from graphdoc.program.proof import likely, signs
from graphdoc.program.spans import span, span_of
from graphdoc.story.wording import folded, listing

PAGE = Page(
    code="GD703",
    title="A kept `.grad` is not a copy: the next backward adds to it",
    families=("silent",),
    what_happened="""\
The program keeps the gradients of one loss (`g = [p.grad for p in net.parameters()]`), clears them, computes those of
another loss and combines the two. But `g` holds the tensors of `p.grad` themselves. Clearing them in place clears
`g`, and the second `backward()` adds its gradients to `g` as well. Both lists hold the same numbers from then on.

An optimizer of one's own that keeps the latest gradient in its state (`state["last"] = p.grad`) compares each gradient
with itself.""",
    why="""\
`p.grad` is an attribute that refers to a tensor, and keeping it keeps a reference. `.data` and `.detach()` are new
tensors over the same memory. `backward()` accumulates in place where `.grad` is there already, and
`zero_grad(set_to_none=False)` and `p.grad.zero_()` write zeros into it. `zero_grad()` as it is by default drops the
reference instead, and the kept tensor stays as it was: the same program is right or wrong by this flag.""",
    example="""\
net.zero_grad(set_to_none=False)
first.backward()
g = [p.grad for p in net.parameters()]
net.zero_grad(set_to_none=False)
second.backward()
k = [p.grad for p in net.parameters()]
dot = sum((a * b).sum() for a, b in zip(g, k))""",
    use_instead="""\
net.zero_grad(set_to_none=False)
first.backward()
g = [p.grad.clone() for p in net.parameters()]
net.zero_grad(set_to_none=False)
second.backward()
k = [p.grad.clone() for p in net.parameters()]
dot = sum((a * b).sum() for a, b in zip(g, k))""",
    fix_safety="""\
Unsafe, because the training changes: what is combined is then what the program says. `.clone()` costs the memory of one
more gradient. `torch.autograd.grad(loss, parameters)` returns new tensors and leaves `.grad` alone.""",
    not_this="""\
- The gradients are never cleared between two steps and nobody keeps them: `zero-grad-missing`.
- The kept gradient is to be differentiated itself: `missing-create-graph`.""",
    references=("torch.Tensor.backward", "torch.optim.Optimizer.zero_grad", "torch.clone"),
)


def recognise(program: Program) -> Finding | None:
    """Kept in a container while a backward adds to it, and read afterwards under the same name."""
    sources = program.sources
    aliased = ((s, read_on(sources, s)) for s in signs(program.signs, "grad-aliased"))
    return next((_told(sign, kept) for sign, kept in aliased if kept is not None), None)


def _told(sign: Sign, kept: KeptGradients) -> Finding:
    name = kept.name
    edits = [edit_at("clone_expression", f) for f in kept.places]
    title = "keep copies: `.clone()` where the gradients are taken"
    note = f"`{name}` keeps the numbers that it had when it was filled"
    remedy = Remedy("several", title, "unsafe", note, {"edits": edits})
    label = "kept without a copy: this is the parameter's own gradient"
    spans = (
        *(span("cause", f, label) for f in kept.places[:3]),
        *span_of("mutated", sign.stack, f"adds to what `{name}` keeps"),
        span("consumed", kept.read, f"`{name}` is read here, after its numbers have changed"),
    )
    whose = folded(sign.parameters)
    weight = likely(0.94)  # that they share their memory is seen; that copies were meant is not
    title = f"`{name}` keeps `.grad` itself, not a copy: a later backward changes it"
    text = "What is kept shares its memory with `.grad`. Clearing in place and every further `backward()` write into "
    text += "it."
    because = f"when this backward ran, {listing([f'`{name}`'])} shared its memory with the gradients of "
    because += f"{whose or 'its parameters'}"
    return Finding(*weight, title, text, tuple(spans), remedies=(remedy,), because=because)
