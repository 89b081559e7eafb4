"""GD504: an integer or boolean tensor was told to require gradients."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span, span_of
from graphdoc.source.module import each
from graphdoc.source.paths import called
from graphdoc.source.scopes import function_of
from graphdoc.story.message_alone import of_message

PAGE = Page(
    code="GD504",
    title="An integer or boolean tensor was told to require gradients",
    families=("leaf-requires-grad",),
    what_happened="""\
`requires_grad=True`, `requires_grad_()` or `nn.Parameter(...)` was applied to a tensor of whole numbers. Either the
numbers were meant to be real and were written without a decimal point (`torch.tensor([1, 2, 3])`, `torch.arange(10)`,
an image as `uint8`), or they are what they look like: token ids, class labels, indices, a mask. Whole numbers cannot
be moved by a small step.""",
    why="""\
A derivative says what happens when the input changes a little. An integer cannot change a little, so PyTorch keeps
gradients for floating point and complex dtypes only: *Only Tensors of floating point and complex dtype can require
gradients*.

`torch.tensor` takes its dtype from the data: `[1, 2]` gives int64, `[1.0, 2]` gives float32. `torch.arange` does
likewise. Factories such as `torch.zeros` and `torch.rand` give floats unless told otherwise.""",
    example="scale = torch.tensor([1, 2, 3], requires_grad=True)",
    use_instead="scale = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)",
    fix_safety="""\
Safe where the numbers are quantities: write them as floats, or give `dtype=torch.float32`. For data that exists
already the order matters: `x.float().requires_grad_()`; the flag first and the cast after would make the cast a part
of the graph.

For token ids and labels there is no gradient to have. Saliency over words and adversarial text take the gradient with
respect to the *embedding* of the ids: call the embedding layer, `requires_grad_()` or `retain_grad()` its result, and
feed that to the rest of the model. A parameter of whole numbers (a fixed index table) belongs in `register_buffer`.""",
    not_this="""\
- Indices come out of `argmax` and the loss is built on them: `nondifferentiable-op`.
- A layer complains about the dtype of its input (*expected Long*, *must have the same dtype*): no matter of
  gradients.""",
    references=(
        "Tensor.requires_grad_",
        "torch.tensor",
        ("torch.nn.Module.register_buffer", "generated/torch.nn.Module.html#torch.nn.Module.register_buffer"),
    ),
)


@of_message("non-float-requires-grad", "non-float-requires-grad-setattr")
def recognise(program: Program) -> Finding:
    """The message is unambiguous; the line that set the flag, and where its tensor was made."""
    frame = program.raised_at
    name, origin = ("", ()) if program.raised_in_module else _origin(program.sources, frame)
    marks = span_of("cause", frame, "whole numbers cannot require gradients")
    known = program.tensor_named(name)
    facts = (f"{name} has dtype {known.dtype}",) if known else ()
    call = bindings.call_at(program.sources, frame)
    title = f"`{name}` holds no floating point numbers and cannot require gradients" if name else PAGE.title
    text = "Gradients exist for floating point and complex tensors only. If these numbers are quantities, make them "
    text += "floats; if they are ids, labels or indices, take the gradient with respect to what they select."
    spans = (*marks, *origin, *program.raised_span("refused here"))
    remedies = _remedies(program.sources, frame, call)
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, spans, facts, remedies)


def _remedies(sources: SourceTexts, frame: Frame | None, call: ast.Call | None) -> tuple[Remedy, ...]:
    """Floats, where a factory of torch is told to require gradients; no flag, where whole numbers are made a parameter.

    ``nn.Parameter`` requires gradients by itself and takes no dtype. One of whole numbers is never trained, whatever
    was meant, so that leaving the flag off keeps every number of the program. Where only the numbers as they are
    written make it whole (``torch.tensor(10)``), a parameter that learns was meant: an index would not work as floats.
    """
    if called(call) == "Parameter":
        written = bindings.argument(call, 0, "data")
        made: Frame | None = None
        if frame is not None and written is not None and _is_inferred(sources, frame, written):
            made = bindings.frame_of(sources, frame.file, written)
        floats = "The numbers are the same, as floats, and can be trained, as a parameter is by itself."
        return (*_as_floats(made, "Make the parameter a float one", floats), *_left_whole(frame))
    if call is None or all(k.arg != "requires_grad" for k in call.keywords):
        return ()
    floats = "The numbers are the same, as floats, and can be trained."
    whole = "The numbers stay whole, as indices and labels have to be, and get no gradient."
    return (
        *_as_floats(frame, "Make the tensor a float tensor", floats),
        *remedy_at(frame, "drop_keyword", "Leave the flag off", "unsafe", whole, name="requires_grad"),
    )


def _as_floats(frame: Frame | None, title: str, note: str) -> tuple[Remedy, ...]:
    return remedy_at(frame, "set_keyword", title, "unsafe", note, name="dtype", value="{torch.float32}")


def _is_inferred(sources: SourceTexts, at: Frame, made: ast.expr) -> bool:
    """Whether numbers alone, as they are written, give a tensor its type: ``torch.tensor([0] * n)``."""
    of_torch = function_of(bindings.tree_at(sources, at), made) == "torch.tensor"
    if not isinstance(made, ast.Call) or not of_torch or len(made.args) != 1:
        return False
    numbers = [n.value for n in each(made.args[0], ast.Constant)]
    return not made.keywords and any(type(n) is int for n in numbers) and not any(type(n) is bool for n in numbers)


def _left_whole(frame: Frame | None) -> tuple[Remedy, ...]:
    title = "Keep the whole numbers as a parameter that is not trained"
    note = "The numbers stay as they are, are saved with the module and get no gradient. If they are quantities that "
    note += "should learn, make them floats instead."
    return remedy_at(frame, "set_keyword", title, "unsafe", note, name="requires_grad", value="False")


def _origin(sources: SourceTexts, frame: Frame | None) -> tuple[str, tuple[Span, ...]]:
    """``x`` of ``x.requires_grad_()`` or ``x.requires_grad = True``, and where it got its value."""
    root = bindings.tree_at(sources, frame)
    if frame is None:
        return "", ()
    for node in each(root, ast.Attribute):
        if node.attr.startswith("requires_grad") and node.lineno == frame.line:
            name = bindings.text_of(node.value)
            made = bindings.assignments(sources, frame, name)[:1]
            return name, tuple(span("created", f, f"`{name}` is made here") for f, _ in made)
    return "", ()
