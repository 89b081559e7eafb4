"""GD301: the loss was rebuilt from Python numbers, lists or NumPy arrays, which carry values and no graph."""

from __future__ import annotations

import ast

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program import bindings
from graphdoc.program.cuts import copied_beside, cut_by_choice
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost, place, span
from graphdoc.program.values_taken_out import called_on, plain_number
from graphdoc.remedies.alongside import for_each_term
from graphdoc.remedies.fix_places import applies
from graphdoc.source.expressions import FULL
from graphdoc.source.module import each
from graphdoc.source.paths import called
from graphdoc.source.scopes import function_of
from graphdoc.story import missing_graph
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD301",
    title="The loss was rebuilt from plain numbers, so its graph was left behind",
    families=("no-graph", "legacy"),
    what_happened="""\
Somewhere between the network and the loss the values were taken out of their tensors and put into new ones. The
numbers are the same; the history is not. `grad_fn` of the new tensor is None, `backward()` has nothing to follow, and
every parameter used before that line would get no gradient.

These calls copy numbers out of the graph:

- `x.item()`, `float(x)`, `int(x)`, `x.tolist()`, `x.detach().numpy()`, and functions of `math`;
- `torch.tensor(x)`, `torch.tensor([x, y])`, `torch.as_tensor([x, y])`, `torch.FloatTensor([x, y])`,
  `torch.from_numpy(array)`.

Two that are often taken for such copies keep the graph: `torch.as_tensor(x)` of one tensor returns that tensor, and
`torch.stack` and `torch.cat` are ordinary differentiable operations.""",
    why="""\
Autograd records operations on tensors. A Python float or a NumPy array is not a tensor, so nothing can be recorded on
it, and a tensor made from it is new data: a leaf that does not require gradients. `backward()` on a result that is
built from such data alone raises *element 0 of tensors does not require grad and does not have a grad_fn*; on a float
it raises *'float' object has no attribute 'backward'*.

A list of tensors given to `torch.tensor` is read number by number, as if each had been through `.item()`. PyTorch
hints at it with a warning: *Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior*.
For a single tensor the warning says *To copy construct from a tensor, it is recommended to use
sourceTensor.detach().clone()*.""",
    example="""\
losses = []
for x, y in episode:
    losses.append(F.mse_loss(model(x), y))
loss = torch.tensor(losses).mean()  # new data: the graphs of the list stay in the list
loss.backward()""",
    use_instead="""\
losses = []
for x, y in episode:
    losses.append(F.mse_loss(model(x), y))
loss = torch.stack(losses).mean()  # one more operation of the same graph
loss.backward()""",
    fix_safety="""\
Safe where a list of tensors is joined: `torch.stack` has the same forward values as `torch.tensor` and adds the
gradient that was meant. Use `torch.cat` if the parts are already vectors.

Unsafe where `.item()` or a NumPy round trip is dropped: what was a constant becomes part of the function that is
differentiated. That is right for the loss itself. It is wrong for a number that was meant to be a constant, such as a
baseline, a reward or a normalising factor. For NumPy code in the middle of a forward there is no small edit: write it
with torch operations, or give it a derivative in a `torch.autograd.Function`.

Setting `loss.requires_grad = True`, or `torch.tensor(..., requires_grad=True)`, removes the message and nothing else:
the loss is then a leaf with a gradient of 1, and no parameter learns.""",
    not_this="""\
- The line says `.detach()` or `.data` and the result stays a tensor: `cut-by-detach`.
- The operation itself has no derivative (argmax, a comparison, `.long()`): `nondifferentiable-op`.
- The whole forward ran under `torch.no_grad()`; then `.item()` has nothing left to cut: `cut-by-no-grad`.
- `.item()` on a value that is only printed or logged is right, and needed to free the graph.""",
    references=("torch.tensor", "torch.stack", "Tensor.item", links.GRAPH_HISTORY),
)


_UNSEEN = "a value on the way to the loss went through `.item()`, a list given to `torch.tensor`, or NumPy."


def recognise(program: Program) -> Finding | None:
    """The first place where a value left its tensor; or a loss that is a float itself."""
    if program.field("type", "float-has-no-backward") == "float":
        return _float_loss(program)
    cut = missing_graph.find_cut(program, "conversion")
    if cut is not None and cut_by_choice(program, cut):
        return None
    return _told(program, cut) if cut is not None else missing_graph.unseen(program, 0.3, PAGE.title, _UNSEEN)


def _told(program: Program, cut: Cut) -> Finding:
    terms, of = missing_graph.of_other_terms(program, cut), missing_graph.of_cut(program.sources, cut)
    together = [cut, *terms, *(c for c in copied_beside(program, cut) if not any(c is t for t in terms))]
    title = f"{of} takes the loss out of the graph, so backward() reaches no parameter"
    text = f"At {missing_graph.same_line(cut)} {of} copies the values out of the graph. What is computed from them has "
    text += "the same numbers and no graph, so autograd sees no parameter that the loss depends on."
    spans = missing_graph.story(program, cut, f"{of} copies the values only: the graph ends here")
    facts = missing_graph.facts_of(program.cuts, cut)
    remedies = (
        for_each_term([_remedies(program.sources, c) for c in together]) if not _in_steps(program, cut) else (SMOOTH,)
    )
    return Finding(*missing_graph.weigh(program, cut), title, text, spans, facts, remedies)


SMOOTH = Remedy(
    "surrogate",
    "Weigh by a smooth function of it instead",
    "display",
    "A whole number has no slope; `torch.sigmoid(length - positions)` weighs each position and has one.",
)


FILLED = Remedy(
    "filled",
    "Multiply ones by the tensor instead",
    "display",
    "`torch.full_like` takes a number; `torch.ones_like(x) * value` has the same values and keeps the graph of it.",
)


def _in_steps(program: Program, cut: Cut) -> bool:
    """Whether the loss was measured to depend in steps alone on a number that is cut off: it was made a whole one."""
    sign = program.evidence.as_if
    measured = sign.facts.get("measured") if sign is not None else None
    return bool(measured and measured[2]) and cut.op not in ("tolist", "numpy")


_MAKERS = {f"torch.{name}" for name in ("tensor", "as_tensor", "FloatTensor", "Tensor")}


def _remedies(sources: SourceTexts, cut: Cut) -> tuple[Remedy, ...]:
    frame = innermost(cut.stack)
    if frame is None:
        return ()
    call = bindings.call_at(sources, frame)
    if function_of(bindings.tree_at(sources, frame), call) in _MAKERS:
        structure = "list" if cut.listed else _structure(sources, call)
        one = structure == "tensor" and not _is_display(call)
        fix, reached = "Join the tensors with torch.stack, which keeps their graphs", "every tensor of the list"
        if one:
            fix, reached = f"Keep the tensor: drop {as_called(cut.op)}", "what this tensor was computed from"
        note = f"The loss has the same value and now reaches {reached}."
        shape = {"flat": bool(cut.element_dims), "nested": cut.nested, "mixed": cut.mixed}
        how = {name: True for name, holds in shape.items() if holds}
        return remedy_at(frame, "stack_instead_of_tensor", fix, "safe", note, structure=structure, **how)
    fills = each(bindings.tree_at(sources, frame), ast.Call) if call is not None else ()
    if any(called(n) in FULL and any(a is call for a in n.args) for n in fills):
        return (FILLED,)  # of a tensor too they take the number alone
    title = f"Compute `{bindings.text_of(call.func)}` in torch" if call is not None else ""
    in_torch = Remedy("torch_instead_of_numpy", title, "unsafe", missing_graph.kept_note(cut), {"place": place(frame)})
    if call is not None and cut.op == "__float__" and applies(sources, in_torch):
        return (in_torch,)
    return remedy_at(
        frame, "drop_call", f"Keep the tensor: drop {as_called(cut.op)}", "unsafe", missing_graph.kept_note(cut)
    )


def _structure(sources: SourceTexts, call: ast.Call | None) -> str:
    """``list`` where the argument is a variable to which the program appends; otherwise a tensor, or a list display."""
    given = bindings.text_of(call.args[0]) if call and call.args else ""
    grows = any(f"{given}.append(" in text or f"{given} = [" in text for text in sources.values())
    return "list" if given.replace(".", "").isidentifier() and grows else "tensor"


def _is_display(call: ast.Call | None) -> bool:
    """Whether the argument is written as a list, or made one where it stands."""
    given = call.args[0] if call and call.args else None
    if isinstance(given, ast.Call):
        return bindings.text_of(given.func) in ("list", "tuple", "sorted")
    return isinstance(given, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp)


def _float_loss(program: Program) -> Finding | None:
    """``loss = ....item()`` and then ``loss.backward()``: the place that converts, where the source shows one.

    None where the number is one that the program has written itself: then no term was added to it.
    """
    frame, name = called_on(program)
    number = plain_number(program.sources, frame, name)
    if number.starts:
        return None
    label = f"`{name}` becomes a Python float here" if number.direct else "the number is taken out of its tensor here"
    spans = tuple(span("cause", f, label) for f in number.converted[:1])
    if not spans and frame is not None:
        spans = (span("cause", frame, "this is a Python float, not a tensor"),)
    weight = program.weight(0.9, Proof.RAISED.where(number.direct))
    text = "The loss is a Python float: `.item()`, `float()` or arithmetic on such numbers has left the tensor and its "
    text += "graph behind. Call `backward()` on the tensor, and take the number from it only for the log."
    return Finding(*weight, PAGE.title, text, (*spans, *program.raised_span("a float has no graph to go back through")))
