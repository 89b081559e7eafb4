"""GD502: a tensor that is part of a graph was handed to NumPy."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Cause, Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.array_calls import ArrayCall, array_call
from graphdoc.program.graph_ways import with_graph
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, distinct, place, span, where
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.remedies.in_place_write import together

TITLE = "A tensor with a graph was handed to NumPy"

PAGE = Page(
    what_happened="""\
`x.numpy()`, `np.array(x)`, `np.mean([...])`, a plot, a metric of scikit-learn or a data frame was given a tensor that
requires gradients: the output of a model, a loss, or a parameter. NumPy calls `numpy()` itself on what it gets, so
the word need not occur on the line; a list of such tensors is enough.

Mostly the tensor has a graph because nobody asked for its absence: an evaluation that does not run under `no_grad`,
or a loss that is returned as a tensor and collected for the average.
""",
    why="""\
A NumPy array shares memory with its tensor and cannot record operations. A computation that leaves through an array
would silently lose its gradient, and a write into the array would change a value that backward needs without the
version counter noticing. So the tensor has to be detached in so many words: *Can't call numpy() on Tensor that
requires grad. Use tensor.detach().numpy() instead.*

`float(x)`, `x.item()` and `x.tolist()` copy numbers out and are allowed.
""",
    example="""\
losses = [criterion(model(x), y) for x, y in validation]
print(np.mean(losses))
""",
    use_instead="""\
with torch.no_grad():
    losses = [criterion(model(x), y).item() for x, y in validation]
print(np.mean(losses))
""",
    fix_safety="""\
Safe for what is printed, plotted or stored: `x.detach().cpu().numpy()` for arrays, `x.item()` for single numbers.
Also for lists that are kept over an epoch: a list of numbers holds no graph, a list of losses holds every graph of
the epoch.

Unsafe if the result goes back into the loss: then the detach cuts the graph at this line, the crash disappears and
the training is wrong or fails later (`cut-by-conversion`). Do that computation in torch: `torch.stack(layers).sum(0)`
for `np.sum(layers, 0)`, `torch.exp(x)` for `np.exp(x)`. That is safe, and it is proposed first where the line belongs
to a module's forward or backward is called on what it gives.

For evaluation prefer `torch.no_grad()` around the whole loop; it saves memory and time as well.
""",
    not_this="""\
- *can't convert cuda:0 device type tensor to numpy*: move it with `.cpu()`; nothing is wrong with the graph.
- The conversion worked and the loss has no graph now: `cut-by-conversion`.
""",
    references=(
        ("Tensor.numpy", "https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html"),
        links.DETACH,
        links.NO_GRAD,
    ),
)


def recognise(program: Program) -> Finding | None:
    """The message is unambiguous; the innermost line of the user's code is where the tensor left."""
    return _told(program) if program.message("numpy-requires-grad", "legacy-variable-numpy") is not None else None


def _told(program: Program) -> Finding:
    strength, confidence = program.weight(0.95, Proof.RAISED.confidence)
    frame = program.raised_at
    code = code_at(program.sources, frame)
    marks = (
        (span("cause", frame, "NumPy gets a tensor that requires gradients here", program.sources),) if frame else ()
    )
    told = f"`{code}` hands" if code and len(code) <= 80 and "\n" not in code else "This line hands"
    handed = array_call(program, frame)
    nested = handed is not None and handed.holds == "nested"
    advice = (
        "Its entries hold tensors with a graph: detach these where they are put in."
        if nested
        else "Compute it in torch: its result is a part of what is trained, and a detached one would end that."
        if handed is not None and handed.learned
        else "Detach it here if only the numbers are wanted, or compute it under `torch.no_grad()` if nothing is "
        "learned from it."
    )
    return Finding(
        strength,
        confidence,
        f"{told} a tensor that requires gradients to NumPy" if told.startswith("`") else TITLE,
        f"{told} a tensor that requires gradients to NumPy, which cannot record operations. {advice}",
        distinct((*marks, *program.raised_span("refused here"))),
        (),
        _remedies(program.sources, frame, handed, with_graph(program.evidence.extras, frame.function))
        if handed is not None and frame is not None
        else (),
    )


def _where_put_in(sources: SourceTexts, frame: Frame, handed: ArrayCall, graphs: set[str]) -> tuple[Remedy, ...]:
    """Entries that hold other things beside a tensor (``history.append([epoch, loss])``): it loses its graph there."""
    kept = bindings.text_of(handed.argument)
    root = bindings.tree(sources, frame.file)
    put = [
        bindings.frame_of(sources, frame.file, name, frame.function)
        for call in (ast.walk(root) if root is not None else ())
        if isinstance(call, ast.Call) and bindings.text_of(call.func) in (f"{kept}.append", f"{kept}.insert")
        for name in (n for a in call.args for n in ast.walk(a))
        if isinstance(name, ast.Name) and name.id in graphs
    ]
    edits = [{"kind": "detach_expression", "args": {"place": place(f)}} for f in put]
    lines = ", ".join(dict.fromkeys(where(f) for f in put))
    note = "What is kept has the numbers only, and no graph stays in memory for it."
    return tuple(together(edits, f"detach what goes into `{kept}`, at {lines}", "unsafe", note))


def _remedies(sources: SourceTexts, frame: Frame, handed: ArrayCall, graphs: set[str]) -> tuple[Remedy, ...]:
    """Torch's own function where the result is trained through; else what is handed over loses its graph first."""
    if handed.holds == "nested":
        return _where_put_in(sources, frame, handed, graphs)
    back = handed.back
    goes_on = f"it is a tensor again at {where(back)}" if back else ""
    goes_on = goes_on or (f"the loss at {where(handed.loss)} is computed with it" if handed.loss else "")
    left = f"{goes_on}: whether it is to train what it was, no run tells" if goes_on else ""
    back_in = f"Gradients end there, though {goes_on}." if goes_on else _NUMBERS
    detached = (
        *remedy_at(_element(sources, frame, handed), "detach_expression", "Detach each element", "unsafe", back_in),
        *remedy_at(
            _argument(sources, frame, handed),
            "detach_expression",
            "Detach each element" if handed.holds == "list" else "Detach the argument",
            "unsafe",
            back_in,
            structure={"list": "tensor"} if handed.holds == "list" else "tensor",
        ),
        *remedy_at(
            frame if handed.direct or handed.converts else None,
            "to_numpy",
            "Detach the tensor before NumPy gets it",
            "safe" if handed.direct and not handed.learned and back is None else "unsafe",
            back_in,
        ),
    )
    detached = tuple(replace(r, open=left) for r in detached)
    in_torch = remedy_at(
        None if handed.direct or handed.converts else frame,
        "torch_instead_of_numpy",
        "Compute it in torch",
        "safe" if handed.learned else "unsafe",
        "The numbers are the same, and gradients flow through them."
        if handed.learned
        else "The result is a tensor with its graph then, not an array.",
        structure=handed.holds,
    )
    # Outside of what is trained a printed tensor is not a printed number: the detached values come first.
    return (*in_torch, *detached) if handed.learned else (*detached, *in_torch)


_NUMBERS = "The numbers are the same. If they go back into a loss, no gradient flows through them."


def _element(sources: SourceTexts, frame: Frame, handed: ArrayCall) -> Frame | None:
    """What a list or comprehension given to NumPy is made of: each element is turned into an array of its own."""
    if not isinstance(handed.argument, ast.ListComp | ast.GeneratorExp):
        return None
    return bindings.frame_of(sources, frame.file, handed.argument.elt, frame.function)


def _argument(sources: SourceTexts, frame: Frame, handed: ArrayCall) -> Frame | None:
    """The tensor that is given to a function of NumPy (or one that uses it): detached before, not after, the call."""
    if handed.direct:
        return None
    if not isinstance(handed.argument, ast.Name | ast.Attribute | ast.BinOp | ast.Call | ast.Subscript):
        return None
    return bindings.frame_of(sources, frame.file, handed.argument, frame.function)


CAUSE = Cause(
    code="GD502",
    slug="numpy-on-grad-tensor",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=(),
)
