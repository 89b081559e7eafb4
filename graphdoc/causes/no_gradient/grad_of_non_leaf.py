"""GD309: .grad was read on a tensor that is the result of an operation, where backward stores nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, remedy_at
from graphdoc.program import bindings
from graphdoc.program.carried_names import bound_names
from graphdoc.program.exception import NON_LEAF_GRAD, warned_at
from graphdoc.program.gradient_reads import reads_gradient, rebound
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span, span_of

PAGE = Page(
    code="GD309",
    title="`.grad` was read on a tensor that is not a leaf, where backward stores nothing",
    what_happened="""\
The backward went well, the tensor is part of the graph, and its `.grad` is None. The tensor is an intermediate
result: `x_adv = x + delta` with `delta` requiring gradients, an activation, a batch after `.to(device)` or
`.reshape(...)`, the output of one module on its way into the next. The gradient has passed through it and was not
kept.""",
    why="""\
To save memory `backward()` keeps gradients only in leaves, the tensors where a branch of the graph begins. For every
other tensor the gradient is freed as soon as it has been passed on. Reading `.grad` there returns None, with a
warning: *The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be
populated during autograd.backward()*. The warning is easily missed, and the error that follows speaks of `NoneType`
only.

Whether a tensor is a leaf does not depend on how important it is. `x.requires_grad_()` makes a leaf of a fresh
tensor; `x.to(device)` of that tensor is no leaf if it had to be moved, and is the very same leaf if not.""",
    example="""\
delta = torch.zeros_like(x).uniform_(-eps, eps).requires_grad_()
x_adv = x + delta
F.cross_entropy(model(x_adv), y).backward()
step = x_adv.grad.sign()""",
    use_instead="""\
delta = torch.zeros_like(x).uniform_(-eps, eps).requires_grad_()
x_adv = x + delta
F.cross_entropy(model(x_adv), y).backward()
step = delta.grad.sign()  # the leaf has it""",
    fix_safety="""\
There are three ways, and they give the same numbers where the tensor is used in one place:

- read the gradient of the leaf, if its derivative is the same (a sum with a constant: yes; a product: no);
- `x_adv.retain_grad()` before the backward: keeps the gradient of exactly this tensor. Safe: nothing else changes;
- `torch.autograd.grad(loss, x_adv)`: returns it directly, and leaves the `.grad` of the parameters alone, which is
  what an attack or a saliency map wants anyway.

`x_adv.detach().requires_grad_()` makes a leaf as well, and cuts what lies before it. That is right if nothing before
it is to learn.""",
    not_this="""\
- The tensor is a leaf and does not require gradients: `input-needs-grad`.
- A parameter's `.grad` is None although it is a leaf: `grad-is-none`.
- The tensor is meant to be trained: `non-leaf-parameter`.""",
    references=("Tensor.retain_grad", "Tensor.is_leaf", "Tensor.grad"),
)


def recognise(program: Program) -> Finding | None:
    """A failure on None right where ``.grad`` is read, of a tensor that has a ``grad_fn``."""
    frame = program.raised_at
    name = reads_gradient(program.sources, frame) if program.met_none else ""
    if frame is None or not name or _is_own_update(program.sources, frame, name):
        return None
    result = _result(program, frame, name)
    return _told(program, frame, result) if result is not None else None


@dataclass(frozen=True)
class _Result:
    """A name that is known, or said, to be the result of an operation; ``made`` is where."""

    name: str
    made: Frame | None
    op: str
    strength: float
    seen: bool


def _result(program: Program, frame: Frame, name: str) -> _Result | None:
    """By the run, by PyTorch's own warning, or by what the source stores; None where it is a leaf, or nothing tells."""
    known = program.tensor_named(name)
    if known is not None and known.is_leaf:
        return None
    warning = warned_at(program.evidence.from_text, program.evidence.warnings, frame, *NON_LEAF_GRAD)
    stored = _stored(program.sources, frame, name)
    if known is None and not warning and stored is None:
        return None
    assigned = next((f for f, _ in bindings.assignments(program.sources, frame, name)), None)
    made = (known.made if known else None) or stored or assigned
    return _Result(name, made, known.op if known else "", 0.93 if known else 0.8 if warning else 0.6, bool(known))


def _is_own_update(sources: SourceTexts, frame: Frame, name: str) -> bool:
    """Whether the name was bound anew by an update with its own gradient: that is another cause's."""
    updated = any(f"{name} = {name} - " in t and f"{name}.grad" in t for t in sources.values())
    return updated and rebound(sources, frame, name)


def _bound_there(sources: SourceTexts, made: Frame | None, name: str) -> str:
    """The name where it is made: `self.maps` there may be `net.maps` here."""
    last = name.rpartition(".")[2]
    bound = bound_names(sources, made) if made is not None and "." in name else []
    return next((n for n in bound if n.rpartition(".")[2] == last), name)


def _told(program: Program, frame: Frame, result: _Result) -> Finding:
    name, made = result.name, result.made
    created = span_of("created", made, f"`{name}` is the result of an operation")
    fix, note = f"Keep the gradient of `{name}` with `retain_grad()`", "Backward stores this tensor's gradient too; "
    kept = f"{_bound_there(program.sources, made, name)}.retain_grad()"
    note += "nothing else changes."
    remedies = remedy_at(made, "add_statement", fix, "safe", note, statement=kept, bound=True)
    title = f"`{name}.grad` is None: `{name}` is no leaf, so backward stores no gradient there"
    text = f"`{name}` is the result of an operation. Backward passes its gradient on and keeps it only in leaves, so "
    text += f"`{name}.grad` is None. Read the leaf's gradient, call `{name}.retain_grad()` before the backward, or use "
    text += f"`torch.autograd.grad(loss, {name})`."
    spans = (
        span("cause", frame, f"`{name}.grad` is None: {name} is not a leaf"),
        *created,
        *program.raised_span("noticed here"),
    )
    facts = (f"it is the result of `{result.op}`, not a leaf",) if result.seen else ()
    return Finding(*Proof.NODE.at(result.strength, result.seen), title, text, spans, facts, remedies)


def _stored(sources: SourceTexts, frame: Frame, name: str) -> Frame | None:
    """Where a method keeps a result under this attribute: ``self.maps = self.conv(x)`` for ``net.maps``."""
    attribute = name.rpartition(".")[2] if "." in name else ""
    found = bindings.assignments(sources, frame, f"self.{attribute}") if attribute else []
    return next((f for f, value in found if isinstance(value, ast.Call | ast.BinOp)), None)
