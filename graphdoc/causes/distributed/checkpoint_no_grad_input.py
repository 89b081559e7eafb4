"""GD805: a reentrant checkpoint was given inputs that need no gradient, so its parameters are cut off."""

from __future__ import annotations

from itertools import takewhile

from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Evidence, Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, together
from graphdoc.model import Confidence
from graphdoc.program import bindings
from graphdoc.program.custom_functions import only_applied
from graphdoc.program.exception import raised_at, raised_span, warned, warned_at
from graphdoc.program.installed import deed_of, deed_span, turned_on
from graphdoc.program.library_calls import by_checkpoint, checkpointed, outside, reentrant_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, span
from graphdoc.remedies.installed_packages import checkpointing_remedies, checkpointing_switch
from graphdoc.story.missing_graph import is_learned, without_graph

PAGE = Page(
    code="GD805",
    title="A reentrant checkpoint cuts the graph: none of its inputs requires gradients",
    families=("checkpoint", "no-graph"),
    what_happened="""\
The first block of a model, the one that gets the data, was run through `checkpoint(..., use_reentrant=True)` (in
older versions that is the default). Data does not require gradients, and the reentrant form looks at the *tensor
arguments* only, not at the parameters inside. So its output does not require gradients either: the parameters of the
block get none, and if all blocks are checkpointed the whole loss has no graph.

The same happens further inside when the embedding in front is frozen, as in fine-tuning with adapters.""",
    why="""\
The reentrant form is a `torch.autograd.Function` whose forward runs under `no_grad`. Such a function is recorded only
if one of its tensor inputs requires gradients, and the parameters are no inputs of it. It warns: *None of the inputs
have requires_grad=True. Gradients will be None*. Then `backward()` raises *element 0 of tensors does not require grad
and does not have a grad_fn*; or, if a later part has a graph of its own, the training goes on without this block.

The other way round, *none of output has requires_grad=True, this checkpoint() is not necessary* comes from backward:
the input requires gradients and the function, when it was run again, gave a result without a graph.

The non-reentrant form records the operations themselves and has none of these limits.""",
    example="""\
h = checkpoint(block, x, use_reentrant=True)  # x is a batch of data
loss = criterion(h, y)
loss.backward()""",
    use_instead="""\
h = checkpoint(block, x, use_reentrant=False)
loss = criterion(h, y)
loss.backward()""",
    fix_safety="""\
Safe: `use_reentrant=False` gives the same values, and the gradients that a call without checkpoint gives. It also
works with `torch.autograd.grad` and with keyword arguments.

Where the reentrant form has to stay, let the input require gradients: `x.requires_grad_()` before the first block
(for models of Hugging Face `model.enable_input_require_grads()`). This computes the gradient of the data in addition.
""",
    not_this="""\
- No warning about the inputs was given: look for the operation that cuts, `cut-by-no-grad`, `cut-by-detach`,
  `frozen-parameters`.
- *incompatible with .grad() or passing an `inputs` parameter*: also the reentrant form, and also cured by
  `use_reentrant=False`.
- The recomputation gave other shapes: `checkpoint-mismatch`.""",
    references=(("torch.utils.checkpoint", "checkpoint.html"),),
)


def recognise(program: Program) -> Finding | None:
    """A loss without graph after the checkpoint's warning or through its frames; or the checkpoint's own refusals."""
    if program.message("checkpoint-no-output-grad", "checkpoint-grad-incompatible") is not None:
        return _refused(program)
    cuts = [c for c in program.cuts if by_checkpoint(c)]
    warning = warned(program.evidence.warnings, "checkpoint-no-input-grad")
    if not without_graph(program.raised) or not (warning or _called(cuts)):
        return None
    return _configured(program, cuts) or _cut_off(program, cuts)


def _refused(program: Program) -> Finding:
    """The checkpoint's own words: its result has no graph, or what was asked for is none of its business."""
    inside = program.message("checkpoint-no-output-grad")
    strength, confidence = program.weight(0.9, Proof.RAISED.where(not inside))
    calls, text = reentrant_calls(program.sources), _INSIDE if inside else _GRAD
    calls = calls or (only_applied(program.evidence.extras) if inside else [])
    return _finding(program.evidence, calls, strength, confidence, text)


def _called(cuts: list[Cut]) -> list[Frame]:
    """The user's lines that run the checkpoints in which the graph was lost."""
    return [f for c in cuts if (f := innermost_user(outside(c.stack)))]


def _is_direct(cut: Cut) -> bool:
    """Whether the user's line calls PyTorch's checkpoint itself, by whatever name: between the two lies only what keeps
    torch.compile out of it."""
    between = takewhile(lambda f: not f.user, reversed(outside(cut.stack)))
    return all("/torch/_" in f.file.replace("\\", "/") for f in between)


def _cut_off(program: Program, cuts: list[Cut]) -> Finding:
    """The program's own checkpoint was given only what requires no gradient."""
    seen = _called(cuts)
    proven = bool(seen) and (cuts == program.cuts or any(is_learned(program, c) for c in cuts))
    return _finding(
        program.evidence,
        seen or _warned_of(program) or reentrant_calls(program.sources),
        0.97 if proven else 0.85 if program.cuts else 0.9,  # beside another cut, of what nobody trains: it may be meant
        Proof.GRAPH_END.where(proven),
        _DATA,
        bool(seen) and all(map(_is_direct, cuts)),
    )


def _warned_of(program: Program) -> list[Frame]:
    """The checkpoints that PyTorch has warned of, by the user's line."""
    warnings = program.evidence.warnings
    return [f for f in reentrant_calls(program.sources) if warned_at(False, warnings, f, "checkpoint-no-input-grad")]


def _configured(program: Program, cuts: list[Cut]) -> Finding | None:
    """A checkpoint that a package runs because the user switched it on; None where no such switch is found."""
    deed = next((d for c in cuts if (d := deed_of(program.packages, outside(c.stack)))), None)
    if deed is None and (cuts or reentrant_calls(program.sources)):
        return None
    switch, feature = checkpointing_switch(program.sources, program.packages, deed)
    if switch is None:
        return None
    package = deed.package.told if deed is not None else "an installed package"
    at = f" at {deed.place}" if deed is not None else ""
    weight = Proof.GRAPH_END.at(0.97 if deed is not None else 0.9, deed is not None)
    text = f"{turned_on(program.sources, switch)} lets {package} run each block under the reentrant checkpoint{at}. "
    text += f"{_DATA}"
    spans = (
        span("cause", switch.frame, "switches the reentrant checkpoint on"),
        *((deed_span("related", deed, "the reentrant checkpoint"),) if deed is not None else ()),
        *program.raised_span("noticed here"),
    )
    return Finding(*weight, PAGE.title, text, spans, remedies=tuple(checkpointing_remedies(switch, feature, package)))


_DATA = (
    "The reentrant checkpoint looks at the tensors that it is given, and none of them requires gradients. It runs "
    "the block under `no_grad` and records nothing, whatever the block's parameters require."
)
_INSIDE = (
    "The checkpointed function was run again for backward, and its result had no graph: something inside cuts it, such "
    "as `no_grad`, a detach, or frozen parameters."
)
_GRAD = (
    "The reentrant checkpoint works with a plain `backward()` only: it runs a backward of its own inside, which does "
    "not know the `inputs` that were asked for. The non-reentrant form has no such limit."
)


def _finding(
    run: Evidence, calls: list[Frame], strength: float, confidence: Confidence, text: str, direct: bool = False
) -> Finding:
    frames = calls or [f for f in [raised_at(run.raised)] if f]
    title = _title(run.sources, calls, text)
    spans = (
        *(span("cause", f, "the reentrant checkpoint") for f in frames[:2]),
        *raised_span(run.raised, "noticed here"),
    )
    remedies = _remedies(run.sources, frames if calls else [], direct)
    return Finding(strength, confidence, title, text, spans, remedies=remedies)


def _title(sources: SourceTexts, calls: list[Frame], text: str) -> str:
    name = checkpointed(sources, calls[0]) if len(calls) == 1 else ""
    if text is _DATA:
        return f"the reentrant checkpoint of `{name}` gets no input that requires gradients" if name else PAGE.title
    named = f"the reentrant checkpoint of `{name}`" if name else "a reentrant checkpoint"
    return f"{named} {'gets a result without a graph' if text is _INSIDE else 'works with a plain backward() only'}"


def _remedies(sources: SourceTexts, calls: list[Frame], direct: bool) -> tuple[Remedy, ...]:
    """``direct``: what is called there is known to be PyTorch's checkpoint."""
    found = [(f, call) for f in calls if (call := bindings.call_at(sources, f)) is not None]
    named = [f for f, c in found if direct or bindings.text_of(c.func).rpartition(".")[2].startswith("checkpoint")]
    note = "The same values, and the gradients that a call without checkpoint gives."
    edits = [edit_at("set_keyword", f, name="use_reentrant", value="False") for f in named]
    return tuple(together(edits, "Use the non-reentrant checkpoint", "safe", note))
