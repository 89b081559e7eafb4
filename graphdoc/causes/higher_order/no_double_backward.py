"""GD402: an operation on the way has a derivative, but its derivative has none."""

from __future__ import annotations

import ast
import re

from graphdoc.causes.base import Page
from graphdoc.evidence import Evidence, Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program import bindings, custom_functions
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.source.paths import only
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD402",
    title="An operation in the graph cannot be differentiated twice",
    families=("not-differentiable", "rnn"),
    what_happened="""\
A gradient was computed with `create_graph=True` and is being differentiated again. One operation of the forward has a
hand-written backward kernel for which PyTorch knows no derivative. The first backward went through it; the second
stops there. The line in the traceback is the second backward; the operation stands somewhere in the forward.

Known cases in current versions (the second derivative is missing, the first is there):

- `F.scaled_dot_product_attention` with a fused kernel (flash, memory-efficient, cuDNN), and what is built on it:
  `nn.MultiheadAttention(..., need_weights=False)`, and `nn.TransformerEncoderLayer` in training where a fused kernel
  is chosen;
- recurrent layers on the GPU through cuDNN; `F.ctc_loss`; `torch.cdist` and `torch.pdist`;
- a `torch.autograd.Function` whose backward is marked `@once_differentiable`, and extensions written in C++ or CUDA.
""",
    why="""\
The backward of an operation is a function too, and differentiating it needs a formula of its own. Most operations
have one, because their backward is made of ordinary operations. Fused kernels do the whole backward in one step, and
nobody has written its derivative: *derivative for aten::_scaled_dot_product_flash_attention_for_cpu_backward is not
implemented*. The operation in the message ends in `_backward`: this tells it from an operation that has no derivative
at all.

A Function of your own has a backward in Python, which PyTorch records like any other code while `create_graph=True`,
unless `@once_differentiable` forbids it: *trying to differentiate twice a function that was marked with
@once_differentiable*.

Which kernel runs is chosen at run time from the device, the dtype, the shapes and the mask. The same model can pass
on the CPU and fail on the GPU, or pass with `need_weights=True` and fail without.""",
    example="""\
y = F.scaled_dot_product_attention(q, k, v)
gradient = torch.autograd.grad(y.sum(), q, create_graph=True)[0]
gradient.square().sum().backward()""",
    use_instead="""\
from torch.nn.attention import SDPBackend, sdpa_kernel

with sdpa_kernel(SDPBackend.MATH):  # around the forward: the kernel is chosen there
    y = F.scaled_dot_product_attention(q, k, v)
gradient = torch.autograd.grad(y.sum(), q, create_graph=True)[0]
gradient.square().sum().backward()""",
    fix_safety="""\
Safe up to rounding: the math backend computes the same attention from ordinary operations, which can be
differentiated any number of times. It is slower and needs memory for the full attention matrix, so it should cover
only the forward of the penalty and not the whole training. A block around the *backward* has no effect.

For the others: `torch.backends.cudnn.flags(enabled=False)` around the forward of a recurrent layer; `torch.cdist`
with `compute_mode="use_mm_for_euclid_dist"`, or written out as `(a.unsqueeze(1) - b).square().sum(-1).sqrt()` (the
square root has no finite derivative at zero distance, and the matrix product is coarse near it).

For a Function marked `@once_differentiable`: take the mark off, if its backward computes only with differentiable
operations of torch, on `grad_output` and on tensors that forward was given or returned. What forward computed on the
way has no graph, and a backward in numpy or C++ has none either: the second derivative would then be wrong without a
message, which is what the mark prevents. `torch.autograd.gradgradcheck` in double precision tells.

Dropping `create_graph=True` also ends the error. The penalty is then a constant and trains nothing.""",
    not_this="""\
- The operation in the message does not end in `_backward`: it has no first derivative: `nondifferentiable-op`.
- *torch.compile with aot_autograd does not currently support double backward*: `compile-no-double-backward`.
- *Trying to backward through the graph a second time*: backward went through the same graph twice, which is not a
  second derivative.""",
    references=(
        "torch.nn.attention.sdpa_kernel",
        "torch.nn.functional.scaled_dot_product_attention",
        (
            "Double backward with custom functions",
            "https://docs.pytorch.org/tutorials/intermediate/custom_function_double_backward_tutorial.html",
        ),
        "torch.autograd.grad",
    ),
)


def recognise(program: Program) -> Finding | None:
    """PyTorch names the kernel; the forward's line is that of the node with this name."""
    if program.message("once-differentiable-twice"):
        return _marked_once(program)
    op = program.field("op", "derivative-not-implemented", "derivative-for-aten-op").removeprefix("aten::")
    return _told(program, op) if op.endswith("_backward") else None


def _told(program: Program, op: str) -> Finding:
    frame = _forward(program.evidence, op)
    marks = span_of("cause", frame, "this operation cannot be differentiated twice")
    call = bindings.call_at(program.sources, frame)
    name = bindings.text_of(call.func) if call is not None else op.strip("_").removesuffix("_backward")
    weight = program.weight(0.95, Proof.RAISED.confidence)
    title = f"{as_called(name)} has no second derivative, and its gradient is differentiated"
    text = f"The backward of one operation ({op}) is a single kernel without a derivative of its own. The first "
    text += "gradient could be computed; its derivative cannot."
    text += _instead(op)
    return Finding(*weight, title, text, (*marks, *_twice(program)), remedies=_remedies(op, frame, call))


def _twice(program: Program) -> tuple[Span, ...]:
    """Where it was differentiated for the first and for the second time."""
    first = next((e for e in reversed(program.before_failure) if e.create_graph), None)
    label = "differentiated once here, with create_graph=True"
    between = span_of("related", first.stack, label) if first else ()
    return (*between, *program.raised_span("differentiated a second time here"))


def _marked_once(program: Program) -> Finding:
    """A Function whose backward is Python, and marked: the mark is told, and whether it can go."""
    every = [f for f in custom_functions.used(program.evidence.extras) if f.once]
    marked = [f for f in every if f.seen] or every
    proven = any(f.seen for f in marked) and len(marked) == 1
    spans: list[Span] = []
    remedies: tuple[Remedy, ...] = ()
    for function in marked[:3]:
        at = custom_functions.backward_of(program.sources, function)
        decorator = custom_functions.mark(at[1]) if at else None
        if at and decorator is not None:
            frame = bindings.frame_of(program.sources, at[0], decorator, "backward")
            spans.append(span("cause", frame, f"the backward of `{function.name}` is marked here"))
            if len(marked) == 1:
                remedies = _unmark(program.sources, function.name, frame, at)
        applied = function.apply or _applied(program.sources, function.name)
        if applied is not None:
            spans.append(span("created", applied, f"`{function.name}` is applied here"))
    name = f"`{marked[0].name}.backward`" if len(marked) == 1 else "The backward of a torch.autograd.Function"
    # The message alone proves the mark, not whose it is.
    weight = program.weight(0.95, Proof.RAISED.where(proven or not spans))
    title = f"{name} is marked `@once_differentiable`, and its gradient is differentiated again"
    text = f"{name} is a Python function, and the mark makes PyTorch run it without recording. The gradient that it "
    text += "returns has the right values and no derivative. The first gradient could be computed; its derivative "
    text += "cannot."
    return Finding(*weight, title, text, (*spans, *_twice(program)), remedies=remedies)


def _unmark(
    sources: SourceTexts, name: str, decorator: Frame, backward: tuple[str, ast.FunctionDef]
) -> tuple[Remedy, ...]:
    forward = custom_functions.forward_of(sources, *backward)
    if forward is not None and custom_functions.keeps_the_graph(sources, backward[0], forward, backward[1]):
        note = "It computes with torch's own operations on what forward was given or returned, so autograd can "
        note += "differentiate it as it stands; the second derivative is then that of the written formula."
        return remedy_at(decorator, "remove_switch", f"Take the mark off `{name}.backward`", "unsafe", note)
    note = f"Write `{name}.backward` with torch's differentiable operations alone, on tensors that forward was given "
    note += "or returned and that `ctx.save_for_backward` keeps; then take the mark off. With anything else (in-place "
    note += "writes, numpy, another library, values that forward computed on the way) the second derivative would be "
    note += "wrong without a word."
    return (Remedy("rewrite_backward", f"Make `{name}.backward` differentiable", "display", note),)


def _applied(sources: SourceTexts, name: str) -> Frame | None:
    """The only call of its ``apply`` in the sources."""
    root = f"{name}.apply("
    return only(
        [f for f in bindings.calls_named(sources, "apply") if root in bindings.text_of(bindings.call_at(sources, f))]
    )


def _instead(op: str) -> str:
    if "attention" in op:
        return " The math backend of attention has a second derivative: choose it around the forward."
    if "cudnn_rnn" in op:
        return " Without cuDNN the layer has one: put `torch.backends.cudnn.flags(enabled=False)` around its forward."
    return ""


def _remedies(op: str, frame: Frame | None, call: ast.Call | None) -> tuple[Remedy, ...]:
    if op == "_cdist_backward" and call is not None and _apart_by_two_norm(call):
        title = "Compute these distances by a matrix product"
        note = "Other roundings, from operations that can be differentiated twice; near zero distance they are coarse."
        return remedy_at(
            frame, "set_keyword", title, "unsafe", note, name="compute_mode", value="'use_mm_for_euclid_dist'"
        )
    if "attention" not in op:
        return ()
    note = "The same values up to rounding, from operations that can be differentiated twice."
    return remedy_at(frame, "sdpa_math", "Run this forward with the math backend of attention", "safe", note)


def _apart_by_two_norm(call: ast.Call) -> bool:
    """Whether ``torch.cdist`` measures Euclidean distances between two sets: those of a set to itself are zero, where
    the square root has no derivative."""
    one, other, p = (bindings.argument(call, i, name) for i, name in enumerate(("x1", "x2", "p")))
    given = one is not None and other is not None and ast.unparse(one) != ast.unparse(other)
    return given and (p is None or ast.unparse(p) in ("2", "2.0"))


def _forward(run: Evidence, op: str) -> Frame | None:
    """Where the forward operation was called: its node in the graph, or its only call in the source."""
    wanted = re.sub(r"[^a-z]", "", op.lower())
    for node in run.nodes:
        if re.sub(r"[^a-z]", "", node.op.lower()).startswith(wanted):
            frame = innermost_user(node.stack)
            if frame and not bindings.text_of(bindings.call_at(run.sources, frame)).split("(")[0].endswith(
                (".grad", ".backward")
            ):
                return frame
    short = op.strip("_").removesuffix("_backward")
    names = [name for name, kernel in _CALLS.items() if name in short or kernel in short]
    return only([f for name in names for f in bindings.calls_named(run.sources, name)])


_CALLS = {
    "scaled_dot_product_attention": "scaled_dot_product",
    "MultiheadAttention": "scaled_dot_product",
    "cdist": "cdist",
    "pdist": "pdist",
    "ctc_loss": "ctc_loss",
}
