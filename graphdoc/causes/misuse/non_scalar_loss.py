"""GD501: backward() was called on a tensor with more than one element."""

from __future__ import annotations

import ast
import math

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, remedy_at
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.gradient_reads import reads_rows
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span, span_of
from graphdoc.remedies.gradients import as_number, maker, reduced
from graphdoc.source.module import is_method_call, walked
from graphdoc.source.paths import called, only, weights_of
from graphdoc.source.scopes import function_of

LONGEST_NAME = 40
"""Characters of an expression that a title can hold."""

PAGE = Page(
    code="GD501",
    title="`backward()` was called on a tensor with more than one element",
    families=("grad-output",),
    what_happened="""\
The loss is a vector or a matrix: one value for each sample, pixel or head. A loss function with `reduction="none"`, a
difference that was never averaged, the output of `nn.DataParallel` (one loss for each GPU), or the output of the
model itself. A gradient step needs one number to make smaller.""",
    why="""\
`backward()` computes the product of a vector with the Jacobian. For a single number that vector is 1 and PyTorch
fills it in. For several numbers every choice of the vector is a different question, so it refuses to guess: *grad can
be implicitly created only for scalar outputs*. Tensors with one element pass whatever their shape, `[1]` or `[1, 1]`
as well as `[]`.

For complex results the same holds: reduce to a real number, such as `abs().sum()`.

Where the vector is given, it needs the shape of what is differentiated, one weight for each element: *Mismatch in
shape: grad_output[0] has a shape of ...*. A mean has the shape `[]`, for which `torch.ones(1)` of shape `[1]` does
not fit.""",
    example="""\
loss = F.cross_entropy(model(x), y, reduction="none") * weights
loss.backward()""",
    use_instead="""\
loss = F.cross_entropy(model(x), y, reduction="none") * weights
loss.mean().backward()""",
    fix_safety="""\
Unsafe, because the scale of the gradient is the author's: `mean()` makes the step independent of the batch size and
is what PyTorch's losses do by default; `sum()` is larger by the number of elements. For weighted terms divide by the
sum of the weights; for padded sequences by the number of real tokens, not by the size of the tensor.

`loss.backward(torch.ones_like(loss))` is the same as `loss.sum().backward()`.

A gradient *for each element* is another thing: `torch.func.vmap` over `torch.func.grad`, or `torch.autograd.grad`
with `is_grads_batched=True`. Summing gives the sum of these gradients, which equals them only if the elements do not
share inputs.""",
    not_this="""\
- The loss has one element and no graph: *element 0 of tensors does not require grad*, see the `cut-by-...` causes.""",
    references=(
        "torch.Tensor.backward",
        ("torch.func: per-sample gradients", "https://docs.pytorch.org/tutorials/intermediate/per_sample_grads.html"),
        ("torch.nn.CrossEntropyLoss: reduction", "generated/torch.nn.CrossEntropyLoss.html"),
    ),
)


def recognise(program: Program) -> Finding | None:
    """The message is unambiguous; the place to change is where the loss gets its value, or the call itself."""
    shapes = program.message("grad-output-shape-mismatch")
    if shapes is not None and not program.evidence.from_text:
        return _misfit(program, shapes.fields)
    if program.message("grad-implicit-real-scalar") is not None:
        return _of_complex(program)
    return _told(program) if program.message("grad-implicit-scalar") is not None else None


def _told(program: Program) -> Finding:
    frame = program.raised_at
    output, inner = _output(program.sources, frame)
    name = bindings.text_of(output) if isinstance(output, ast.Name | ast.Attribute) else ""
    known = program.tensor_named(name)
    shape = next((n.shape for n in program.nodes if n.id == program.evidence.root), known.shape if known else [])
    op = known.op if known else ""
    what = bindings.text_of(output) if output is not None else ""
    trained = program.owners.parameters(o.id for o in program.owners.optimizers)
    trained |= {p.name for p in program.parameters if "." in p.name}  # those of a module
    what = what if len(what) <= LONGEST_NAME and "\n" not in what else name
    facts = (f"its shape is {list(shape)}",) if shape and not what else ()
    count = f"{math.prod(shape)} elements" if shape else "more than one element"
    begins = "`autograd.grad()`" if inner else "`backward()`"
    title = f"`{what}` has {count}, but {begins} starts from a single number" if what else PAGE.title
    text = "Several numbers have no single gradient, unless each is given a weight. Reduce them to one number, usually "
    text += "with `mean()`."
    spans = (*_places(program, frame, name), *program.raised_span("one number is needed here"))
    remedies = reduced(program.sources, frame, output, inner or reads_rows(program.sources, frame, trained), name, op)
    because = f"`{what}` has shape {list(shape)}" if what and shape else ""
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, spans, facts, remedies, because=because)


def _of_complex(program: Program) -> Finding:
    """One number, but a complex one: PyTorch takes a gradient of real numbers alone without being told how."""
    frame = program.raised_at
    output, _ = _output(program.sources, frame)
    what = f"`{bindings.text_of(output)}`" if isinstance(output, ast.Name | ast.Attribute) else "What is differentiated"
    mark = span_of("cause", frame, "what is differentiated here is complex")
    title = f"{what} is complex, and only a real number has a gradient without saying how its parts are weighed"
    text = "Differentiate something real: the absolute value, its square, or the real part."
    spans = (*mark, *program.raised_span("a real number is needed here"))
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, spans)


def _misfit(program: Program, shapes: dict[str, str]) -> Finding:
    """The weights that are given with what is differentiated have another shape: the place is where they are made."""
    frame = program.raised_at
    given = _weights(program.sources, frame)
    one = maker(program.sources, frame, given)
    made = [one[0]] if one is not None else _made(program.sources, frame, given)
    had, wanted = (shapes.get(name, "").removeprefix("torch.Size(").rstrip(")") for name in ("shape", "shape2"))
    if not made and frame is not None and given is not None:
        made = [bindings.frame_of(program.sources, frame, given)]
    spans = tuple(span("cause", f, f"these weights have shape {had}, {wanted} is needed") for f in made[:1])
    number = (
        wanted == "[]"
        and bool(given)
        and all(_ones(bindings.tree_at(program.sources, frame), v) for v in _values(program.sources, frame, given))
    )
    note = "Every loss counts once, as it does with a weight of one."
    title = f"weights of shape {had} are given for a value of shape {wanted}"
    text = "Every element of what is differentiated has one weight, so that both have the same shape. A number, such "
    text += "as a mean, has the shape []; without a weight it counts once."
    places = (*spans, *program.raised_span(f"differentiates a value of shape {wanted}"))
    remedies = remedy_at(frame if number else None, "drop_weights", "Leave out the weights", "unsafe", note) or (
        as_number(program.sources, one) if wanted == "[]" else ()
    )
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, places, remedies=remedies)


def _weights(sources: SourceTexts, frame: Frame | None) -> ast.expr | None:
    """The expression of the weights that a call of ``backward`` or ``autograd.grad`` is given."""
    call = bindings.call_at(sources, frame) if frame is not None else None
    if call is None:
        return None
    keyword, position = weights_of(call)
    return bindings.argument(call, position, keyword)


def _made(sources: SourceTexts, frame: Frame | None, given: ast.expr | None) -> list[Frame]:
    """Where a name for the weights is bound; empty where they are written at the call."""
    if frame is None or not isinstance(given, ast.Name | ast.Attribute):
        return []
    name = bindings.text_of(given)
    made = bindings.assignments(sources, frame, name)
    # A move to another device (``w = w.cuda()``) keeps the shape that it was made with.
    new = [f for f, v in made if not any(bindings.text_of(n) == name for n in walked(v))]
    return new or [f for f, _ in made]


def _values(sources: SourceTexts, frame: Frame | None, given: ast.expr | None) -> list[ast.expr]:
    """What the weights are: the expression itself, or all that their name is bound to."""
    if frame is None or given is None:
        return []
    bound = (
        [v for _, v in bindings.assignments(sources, frame, bindings.text_of(given))]
        if isinstance(given, ast.Name | ast.Attribute)
        else []
    )
    return bound or [given]


def _ones(tree: ast.Module, value: ast.expr) -> bool:
    """Whether an expression makes ones, or a sequence of nothing else; moved to a device or not."""
    if isinstance(value, ast.List | ast.Tuple):
        return bool(value.elts) and all(_ones(tree, e) for e in value.elts)
    if isinstance(value, ast.ListComp):
        return _ones(tree, value.elt)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):  # [torch.ones(1)] * 3
        return any(isinstance(v, ast.List | ast.Tuple) and _ones(tree, v) for v in (value.left, value.right))
    if not isinstance(value, ast.Call):
        return False
    if is_method_call(value, "to", "cuda", "cpu"):
        return _ones(tree, value.func.value)
    return function_of(tree, value) in ("torch.ones", "torch.ones_like")


def _output(sources: SourceTexts, frame: Frame | None) -> tuple[ast.expr | None, bool]:
    """What is differentiated, as it is written; and whether ``autograd.grad`` does it."""
    call = bindings.call_at(sources, frame) if frame is not None else None
    if call is None:
        return None, False
    if called(call) == "grad":
        return bindings.argument(call, 0, "outputs"), True
    if function_of(bindings.tree_at(sources, frame), call) == "torch.autograd.backward":
        roots = bindings.argument(call, 0, "tensors")  # of several the message does not tell which is the one
        return only(roots.elts) if isinstance(roots, ast.List | ast.Tuple) else roots, False
    return getattr(call.func, "value", None), False


def _places(program: Program, frame: Frame | None, name: str) -> tuple[Span, ...]:
    """The assignment of what is differentiated; the call itself where that is an expression, or where several lines
    assign it and the run does not tell which has."""
    sources = program.sources
    if frame is None:
        return ()
    made = bindings.assignments(sources, frame, name) if name else []
    root = program.node(program.evidence.root)
    ran = {(f.file, f.line) for f in root.stack} if root is not None else set()
    known = [f for f, _ in made if any((f.file, line) in ran for line in range(f.line, (f.end_line or f.line) + 1))]
    if known or len(made) == 1:
        return (span("cause", (known or [made[0][0]])[0], f"`{name}` has more than one element"),)
    return (span("cause", frame, "what is differentiated here has more than one element"),)
