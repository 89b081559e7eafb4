"""GD303: gradient recording was off while the loss, or what it is built from, was computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.cuts import left_by_an_earlier_round
from graphdoc.program.library_calls import by_checkpoint
from graphdoc.program.observed import Program
from graphdoc.program.spans import code_at, innermost, span, where
from graphdoc.program.writers import unrecorded_call
from graphdoc.remedies.recording import meant_for_one, recorded_call, recorded_derivative, scoped, told_under_way
from graphdoc.story import missing_graph
from graphdoc.story.wording import as_called

PAGE = Page(
    code="GD303",
    title="Gradient recording was switched off while the loss was computed",
    families=("no-graph", "legacy"),
    what_happened="""\
The forward ran under `torch.no_grad()`, `torch.inference_mode()` or `torch.set_grad_enabled(False)`, and then a
`backward()` was asked for. In that mode PyTorch computes values and records nothing: every result has
`requires_grad == False`, although all parameters have it True and every layer is in order.

The switch is often far from the loss:

- a decorator on a method that is now used for training as well (`@torch.no_grad()` on `encode`, `act`, `features`);
- a caller higher up, such as an evaluation loop that runs a module whose forward calls `backward` itself;
- `torch.set_grad_enabled(False)` as a statement, left on after a validation pass;
- a `with` block that is longer than it looks, with the loss inside its indentation;
- `@torch.no_grad()` on the `step` of an optimizer of one's own, which calls the closure that it is given.""",
    why="""\
Whether an operation is recorded is decided when it runs, by the grad mode of the current thread, not when
`backward()` is called. Nothing can be added later: the graph of these operations does not exist. `backward()` finds a
root without `grad_fn` and raises *element 0 of tensors does not require grad and does not have a grad_fn*.

`model.eval()` is another thing. It changes dropout and batch normalisation and leaves the grad mode alone; likewise
`model.train()` does not switch recording on. `torch.enable_grad()` inside a `no_grad` block records again from there
on, and cannot bring back what was computed before. Inside `inference_mode` it has no effect at all: only
`torch.inference_mode(False)` ends that mode.""",
    example="""\
@torch.no_grad()
def features(x):
    return backbone(x)


loss = F.cross_entropy(features(x), y)  # the whole backbone ran unrecorded
loss.backward()""",
    use_instead="""\
def features(x):
    return backbone(x)


loss = F.cross_entropy(features(x), y)
loss.backward()

with torch.no_grad():  # the switch stands where nothing is to be learned
    score = features(validation_x)""",
    fix_safety="""\
Unsafe: recording this part means that its parameters receive gradient, and that its activations stay in memory until
`backward()`. Where the part was meant to be a frozen extractor, the switch is right and something trainable has to
stand behind it (a head that is *outside* of the block).

Prefer moving the switch to the callers that only evaluate. Opening `torch.enable_grad()` inside a function that
somebody calls under `no_grad` also works, but it builds a graph in every evaluation. An optimizer's `step(closure)` is
the place for it: the update needs the switch, and the closure must be recorded.

A switch that is thrown by a statement and never put back, in the constructor of a helper for instance, was meant for
that helper's own computations. There recording stays off: `@torch.no_grad()` on the function that computes, or `with
torch.no_grad():` around its lines, in place of the statement. For the rest of the program it comes back.

When a training step is run for its numbers only (a loss module that calls `backward` itself, in evaluation), the
right change is to skip the backward: `if torch.is_grad_enabled(): loss.backward()`.""",
    not_this="""\
- Grad mode is on and a single operation drops the graph: `cut-by-detach`, `cut-by-conversion`,
  `nondifferentiable-op`.
- Grad mode is on and no parameter has `requires_grad=True`: `frozen-parameters`.
- The message is *Inference tensors cannot be saved for backward*: `inplace-on-inference-tensor`.
- A reentrant checkpoint with inputs that need no gradient: `checkpoint-no-grad-input`.""",
    references=(
        links.GRAD_MODES,
        "torch.no_grad",
        links.INFERENCE_MODE,
        ("torch.set_grad_enabled", "generated/torch.autograd.grad_mode.set_grad_enabled.html"),
    ),
)


_UNSEEN = "the forward ran under `torch.no_grad()` or `torch.inference_mode()`, perhaps by a decorator or a caller."


def recognise(program: Program) -> Finding | None:
    """The first operation that had parameters and no recording, and where recording was switched off."""
    own = [c for c in program.cuts if c.reason == "no-grad" and not missing_graph.is_gradient(c)]
    # A reentrant checkpoint runs without recording on purpose: that is another cause's.
    cut = next((c for c in own if not by_checkpoint(c)), None)
    if own and cut is None:
        return None
    seen = cut is not None and missing_graph.without_graph(program.raised)
    if cut is not None and seen:
        return _told(program, cut)
    return told_under_way(program) or missing_graph.unseen(program, 0.28, PAGE.title, _UNSEEN)


@dataclass(frozen=True)
class _Off:
    """Where recording was switched off for a cut: by what (empty where nothing tells), the place, whether that is
    ``inside`` of a call of the user's, and the call that runs the optimizer's ``closure`` there, where one does."""

    kind: str
    switch: Frame | None
    inside: bool
    closure: Frame | None


def _off(sources: SourceTexts, cut: Cut) -> _Off:
    switch = _switch(sources, cut)
    closure = unrecorded_call(sources, cut.stack, switch) if switch is not None and not cut.grad_mode else None
    code = code_at(sources, switch) if switch is not None else ""  # a mode around the operation, or what left it off
    kind = cut.switch_kind or ("set_grad_enabled(False)" if "set_grad_enabled" in code else "no_grad" if switch else "")
    return _Off(kind, switch, bool(cut.switch) and not cut.switch[-1].user, closure)


def _told(program: Program, cut: Cut) -> Finding:
    off = _off(program.sources, cut)
    runs = (
        f"{_code(program.sources, cut)} runs" if off.closure is None else f"`{off.closure.function}` runs its closure"
    )
    so = "so the loss has no graph"
    useless = bindings.contexts_around(program.sources, cut.stack, "enable_grad") if cut.grad_mode else []
    earlier = _earlier(program, cut)
    if earlier is not None:
        runs = runs.replace("` runs", "` ran")
        so = f"in an earlier round (at {where(earlier)}), and the loss is built from it"
    title = f"{runs} {f'under {off.kind}' if off.kind else 'while gradient recording is off'}, {so}"
    text = _explain(program.sources, cut, off)
    spans = (
        *_marks(off),
        *missing_graph.story(program, cut, "computed here without being recorded"),
        *(span("related", f, "this has no effect in inference mode") for f in useless[:1]),
    )
    facts = missing_graph.facts_of(program.cuts, cut)
    return Finding(*missing_graph.weigh(program, cut), title, text, spans, facts, _fixes(program, cut, off))


_LONGEST = 40


def _code(sources: SourceTexts, cut: Cut) -> str:
    """What ran without being recorded: the expression, where it is short; else the operation."""
    code = code_at(sources, innermost(cut.stack))
    return f"`{code}`" if code and len(code) <= _LONGEST and "\n" not in code else as_called(cut.op)


def _explain(sources: SourceTexts, cut: Cut, off: _Off) -> str:
    """What ran without being recorded, and where that was switched off."""
    where_off = f" {'inside the call ' if off.inside else ''}at {where(off.switch)}" if off.switch else ""
    told = f"`{off.kind}`{where_off}" if off.kind else "nothing shows where it was switched off"
    text = f"{_code(sources, cut)} at {missing_graph.same_line(cut)} ran while gradient recording was off ({told}). "
    text += "Its result has no graph although the parameters require gradients, and neither has the loss that is "
    text += "computed from it."
    more = [_CLOSURE] if off.closure is not None else []
    return " ".join([text, *more, *([_INFERENCE] if cut.grad_mode else [])])


def _earlier(program: Program, cut: Cut) -> Frame | None:
    """Where an earlier round left what the loss takes, to the loss of this one."""
    failing = program.failing.stack if program.failing is not None else []
    return left_by_an_earlier_round(missing_graph.loss_made(program.evidence.extras)[1] or failing, cut)


def _marks(off: _Off) -> list[Span]:
    """The place that switched recording off; before it the closure's call, where that is to be changed."""
    marks = []
    if off.closure is not None:
        marks.append(span("cause", off.closure, "the closure runs here, where nothing is recorded"))
    if off.switch is not None:
        label = f"gradient recording is switched off {'inside this call' if off.inside else 'here'}"
        marks.append(span("cause" if off.closure is None else "related", off.switch, label))
    return marks


def _fixes(program: Program, cut: Cut, off: _Off) -> tuple[Remedy, ...]:
    if off.closure is not None:
        return _closure_remedies(off.closure)
    if not off.inside:
        return _remedies(program, cut, off.switch)
    differentiates = program.failing is not None and program.failing.kind == "grad"
    return tuple(recorded_derivative(cut, program.raised)) if differentiates else ()


_INFERENCE = (
    "Grad mode was on there (`torch.enable_grad()`), which has no effect in inference mode: nothing is recorded until "
    "that mode ends. Inside `torch.no_grad()` it would have."
)
_CLOSURE = (
    "An optimizer's step rightly changes its parameters without recording. But its closure computes the loss and calls "
    "`backward()`: PyTorch's own optimizers run it under `torch.enable_grad()`."
)


def _closure_remedies(closure: Frame) -> tuple[Remedy, ...]:
    title = "Record what the closure computes: `with torch.enable_grad():` around its call"
    note = "The closure's loss gets a graph and its parameters gradients; the update itself stays unrecorded."
    return remedy_at(closure, "enable_grad_block", title, "unsafe", note)


def _switch(sources: SourceTexts, cut: Cut) -> Frame | None:
    """Where recording was switched off: as the run has seen it, with the columns of the source where that has them."""
    around = bindings.contexts_around(sources, cut.stack)
    observed = innermost(cut.switch)
    if observed is not None:
        # A decorator is seen at the first decorator's line of its function.
        same = [s for s in around if s.file == observed.file and cut.switch_kind in code_at(sources, s)]
        return min((s for s in same if s.line >= observed.line), key=lambda s: s.line, default=observed)
    if around:
        return around[0]
    # A function call that has returned long ago leaves no other trace than its source.
    named = bindings.calls_named(sources, "set_grad_enabled", "_set_grad_enabled")
    statements = [f for f in named if "(False)" in code_at(sources, f)]
    return next(iter(statements), None)


def _remedies(program: Program, cut: Cut, switch: Frame | None) -> tuple[Remedy, ...]:
    earlier = _earlier(program, cut)
    if earlier is not None:
        # What that round computed is right to be unrecorded: an evaluation. The loss is to have a value of its own.
        title = f"compute the value again for this loss, instead of keeping what {where(earlier)} computed"
        note = "Empty what keeps it before the next loss is computed: then it has a graph, and the weights of now."
        return remedy_at(earlier, "compute_again", title, "display", note)
    if switch is None:
        return ()
    swap: tuple[Remedy, ...] = ()
    if cut.grad_mode:
        fix = "Use `torch.no_grad()` in its place, in which `torch.enable_grad()` records"
        note = "What is computed under `enable_grad` then has a graph; the rest is not recorded, as before."
        swap = remedy_at(switch, "swap_switch", fix, "unsafe", note, old="inference_mode", new="no_grad")
    effect = "The parameters used in this part then receive gradient, and its activations are kept until backward."
    removed = remedy_at(switch, "remove_switch", "Record gradients in this part: remove the switch", "unsafe", effect)
    failing = program.failing.stack if program.failing is not None else []
    whole = meant_for_one(program.sources, cut.stack, failing, switch, program.names)
    removed = tuple(replace(r, open=whole) for r in removed)
    off = not missing_graph.recording_was_on(program.evidence.extras)
    inside = recorded_call(program.sources, cut, program.raised, switch) if off else ()
    return (*swap, *inside, *scoped(program, cut, switch), *removed)
