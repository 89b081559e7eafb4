"""GD502: a tensor that is part of a graph was handed to NumPy."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.model import Safety
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, span, span_of, where
from graphdoc.program.values_taken_out import ArrayCall, array_call, goes_nowhere_else
from graphdoc.story.message_alone import of_message

PAGE = Page(
    code="GD502",
    title="A tensor with a graph was handed to NumPy",
    what_happened="""\
`x.numpy()`, `np.array(x)`, `np.mean([...])`, a plot, a metric of scikit-learn or a data frame was given a tensor that
requires gradients: the output of a model, a loss, or a parameter. NumPy calls `numpy()` itself on what it gets, so
the word need not occur on the line; a list of such tensors is enough.

Mostly the tensor has a graph because nobody asked for its absence: an evaluation that does not run under `no_grad`,
or a loss that is returned as a tensor and collected for the average.""",
    why="""\
A NumPy array shares memory with its tensor and cannot record operations. A computation that leaves through an array
would silently lose its gradient, and a write into the array would change a value that backward needs without the
version counter noticing. So the tensor has to be detached in so many words: *Can't call numpy() on Tensor that
requires grad. Use tensor.detach().numpy() instead.*

`float(x)`, `x.item()` and `x.tolist()` copy numbers out and are allowed.""",
    example="""\
losses = [criterion(model(x), y) for x, y in validation]
print(np.mean(losses))""",
    use_instead="""\
with torch.no_grad():
    losses = [criterion(model(x), y).item() for x, y in validation]
print(np.mean(losses))""",
    fix_safety="""\
Safe for what is printed, plotted or stored: `x.detach().cpu().numpy()` for arrays, `x.item()` for single numbers.
Also for lists that are kept over an epoch: a list of numbers holds no graph, a list of losses holds every graph of
the epoch.

Unsafe if the result goes back into the loss: then the detach cuts the graph at this line, the crash disappears and
the training is wrong or fails later (`cut-by-conversion`). Do that computation in torch: `torch.stack(layers).sum(0)`
for `np.sum(layers, 0)`, `torch.exp(x)` for `np.exp(x)`. That is safe, and it is proposed first where the line belongs
to a module's forward or backward is called on what it gives.

For evaluation prefer `torch.no_grad()` around the whole loop; it saves memory and time as well.""",
    not_this="""\
- *can't convert cuda:0 device type tensor to numpy*: move it with `.cpu()`; nothing is wrong with the graph.
- The conversion worked and the loss has no graph now: `cut-by-conversion`.""",
    references=("Tensor.numpy", "torch.Tensor.detach", "torch.no_grad"),
)


@of_message("numpy-requires-grad", "legacy-variable-numpy")
def recognise(program: Program) -> Finding:
    """The message is unambiguous; the innermost line of the user's code is where the tensor left."""
    frame = program.raised_at
    code = code_at(program.sources, frame)
    marks = span_of("cause", frame, "NumPy gets a tensor that requires gradients here")
    told = f"`{code}` hands" if code and len(code) <= 80 and "\n" not in code else "This line hands"
    handed = array_call(program, frame)
    entries = handed if handed is not None and handed.keeps_graphs else None
    advice = (
        "Its entries hold tensors with a graph: detach these where they are put in."
        if entries
        else "Compute it in torch: its result is a part of what is trained, and a detached one would end that."
        if handed is not None and handed.learned
        else "Detach it here if only the numbers are wanted, or compute it under `torch.no_grad()` if nothing is "
        "learned from it."
    )
    put = [span("created", f, "put in here with its graph") for f in (entries.put if entries else ())]
    title = f"{told} a tensor that requires gradients to NumPy" if told.startswith("`") else PAGE.title
    text = f"{told} a tensor that requires gradients to NumPy, which cannot record operations. {advice}"
    spans = (*marks, *put, *program.raised_span("refused here"))
    remedies = _remedies(program.sources, frame, handed) if handed is not None and frame is not None else ()
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, spans, remedies=remedies)


def _where_put_in(handed: ArrayCall) -> tuple[Remedy, ...]:
    """The entries of a list (``history.append([epoch, loss])``) lose their graphs where they are put in."""
    kept = bindings.text_of(handed.argument)
    edits = [edit_at("detach_expression", f) for f in handed.put]
    lines = ", ".join(dict.fromkeys(where(f) for f in handed.put))
    note = "What is kept has the numbers only, and no graph stays in memory for it."
    return tuple(together(edits, f"detach what goes into `{kept}`, at {lines}", "unsafe", note))


def _remedies(sources: SourceTexts, frame: Frame, handed: ArrayCall) -> tuple[Remedy, ...]:
    """Torch's own function where the result is trained through; else what is handed over loses its graph first."""
    if handed.holds == "nested":
        return _where_put_in(handed)
    back = handed.back
    goes_on = f"it is a tensor again at {where(back)}" if back else ""
    goes_on = goes_on or (f"the loss at {where(handed.loss)} is computed with it" if handed.loss else "")
    left = f"{goes_on}: whether it is to train what it was, no run tells" if goes_on else ""
    shown = not goes_on and not handed.learned and goes_nowhere_else(sources, frame)
    back_in = f"Gradients end there, though {goes_on}." if goes_on else _PRINTED if shown else _NUMBERS
    safety: Safety = "safe" if shown else "unsafe"
    listed, array = handed.holds == "list", handed.direct or handed.converts
    each, structure = "Detach each element", {"list": "tensor"} if listed else "tensor"
    one = each if listed else "Detach the argument"
    plainly: Safety = "safe" if handed.direct and not handed.learned and back is None else safety
    detached = (
        *remedy_at(_element(sources, frame, handed), "detach_expression", each, safety, back_in),
        *remedy_at(_argument(sources, frame, handed), "detach_expression", one, safety, back_in, structure=structure),
        *remedy_at(frame if array else None, "to_numpy", "Detach the tensor before NumPy gets it", plainly, back_in),
    )
    detached = tuple(replace(r, open=left, args={**r.args, "only_shown": shown}) for r in detached)
    at, kind, title = None if array else frame, "torch_instead_of_numpy", "Compute it in torch"
    if handed.learned:
        note = "The numbers are the same, and gradients flow through them."
        return (*remedy_at(at, kind, title, "safe", note, structure=handed.holds), *detached)
    note = "The result is a tensor with its graph then, not an array."
    in_torch = remedy_at(at, kind, title, "unsafe", note, structure=handed.holds)
    # A list that is only shown need not keep the graphs of what is put in. Outside of what is trained a printed tensor
    # is not a printed number: the detached values come before those with a graph.
    entries = _where_put_in(handed) if handed.keeps_graphs else ()
    return (*entries, *detached, *in_torch)


_PRINTED = "The numbers are the same, and they are only printed: no gradient depends on them."
_NUMBERS = "The numbers are the same. If they go back into a loss, no gradient flows through them."


def _element(sources: SourceTexts, frame: Frame, handed: ArrayCall) -> Frame | None:
    """What a list or comprehension given to NumPy is made of: each element is turned into an array of its own."""
    if not isinstance(handed.argument, ast.ListComp | ast.GeneratorExp):
        return None
    return bindings.frame_of(sources, frame, handed.argument.elt)


def _argument(sources: SourceTexts, frame: Frame, handed: ArrayCall) -> Frame | None:
    """The tensor that is given to a function of NumPy (or one that uses it): detached before, not after, the call."""
    if handed.direct:
        return None
    if not isinstance(handed.argument, ast.Name | ast.Attribute | ast.BinOp | ast.Call | ast.Subscript):
        return None
    return bindings.frame_of(sources, frame, handed.argument)
