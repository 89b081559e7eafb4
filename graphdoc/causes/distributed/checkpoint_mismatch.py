"""GD804: what a checkpointed function computed the second time differs from the first."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import RECOMPUTED, Evidence, Frame, Node, Raised, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program import name_usage
from graphdoc.program.exception import field_of
from graphdoc.program.library_calls import checkpoint_calls, checkpointed, in_checkpoint, outside, ran_inside
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD804",
    title="A checkpointed function computed something else when it was run again",
    families=("checkpoint", "silent"),
    what_happened="""\
`torch.utils.checkpoint` runs a function without keeping its intermediate results, and runs it *again* during backward
to have them. The second run did other operations than the first, or gave tensors of another shape or dtype. The
function depends on something besides its arguments that has changed in between:

- state that the function itself changes: a cache of keys and values that it appends to, a counter, a list of losses,
  an attribute that is None the first time;
- settings outside: `model.eval()`, a changed temperature or mask, a flag switched between forward and backward, a hook
  that is removed before backward;
- grad mode or autocast that is not the same in both runs; randomness that is not torch's own (`random`, NumPy), which
  is not restored.""",
    why="""\
The results of the second run take the places of those of the first. The non-reentrant form (`use_reentrant=False`)
compares their number, shapes, dtypes and devices, and refuses: *Recomputed values for the following tensors have
different metadata than during the forward pass*, or *A different number of tensors was saved during the original
forward and recomputation*.

Values are not compared. A function that draws other numbers of the same shape the second time passes the check and
gives a wrong gradient. Torch's own generators are safe: their state is stored and put back
(`preserve_rng_state=True`).

The reentrant form has no such check. It fails later, as *Mismatch in shape: grad_output[0] ...*, or not at all: what
the second run leaves out gets no gradient, without a word.""",
    example="""\
def block(h):
    self.cache.append(self.key(h))  # runs twice: the cache grows in backward, too
    return attend(h, torch.cat(self.cache, 1))


h = checkpoint(block, h, use_reentrant=False)""",
    use_instead="""\
def block(h, past):
    return attend(h, torch.cat([*past, self.key(h)], 1))


h = checkpoint(block, h, tuple(self.cache), use_reentrant=False)""",
    fix_safety="""\
Safe: the patch calls the function without the checkpoint. The gradient is that of the forward that was run; it costs
the memory that the checkpoint was to spare.

To keep the checkpoint, make the function depend on its arguments alone, and let it change nothing outside. Pass the
state in and return the new one; write it down after the checkpoint. A cache for generation is not needed in training:
switch it off there.

`determinism_check="none"` only removes the comparison. The gradient of a function that is another one the second time
is wrong.

To see the two runs side by side, `checkpoint(..., debug=True)` prints the operations of both.""",
    not_this="""\
- *element 0 of tensors does not require grad* with the warning *None of the inputs have requires_grad=True*:
  `checkpoint-no-grad-input`.
- The error comes under `torch.compile` with changing shapes: the recomputation may have taken another compiled graph;
  mark the dimension as dynamic, or compile inside of the checkpoint.""",
    references=(
        ("torch.utils.checkpoint", "checkpoint.html"),
        (
            "torch.utils.checkpoint.set_checkpoint_debug_enabled",
            "checkpoint.html#torch.utils.checkpoint.set_checkpoint_debug_enabled",
        ),
    ),
)


_SHAPES = ("checkpoint-metadata-mismatch",)
_COUNT = ("checkpoint-tensor-count", "checkpoint-more-tensors")


def recognise(program: Program) -> Finding | None:
    """The checkpoint's own comparison failed; the places are the checkpoint call and the state that forwards write.

    Certain where the node at which the backward stopped was made inside of a checkpoint: that one is the checkpoint.
    """
    found = program.message(*_SHAPES, *_COUNT)
    if found is not None:
        return _told(program, found.id in _SHAPES)
    sign = first_sign(program.signs, RECOMPUTED)
    return _measured(program, sign) if sign is not None else None


def _measured(program: Program, sign: Sign) -> Finding | None:
    """Nothing is compared by PyTorch, or nothing that differs: run once, the same function gives another gradient."""
    call = innermost_user(outside(sign.stack))
    if call is None:
        return None
    name, whose = checkpointed(program.sources, call), folded(sign.parameters)
    what = f"`{name}`" if name else "a checkpointed function"
    lost = "gives no gradient to" if sign.facts["none"] else "gives another gradient to"
    title = f"{what}, run again by its checkpoint, {lost} {whose}"
    text = "The checkpoint runs the function again for backward, and the second run does something else than the "
    text += "first. It depends on something that has changed in between: a hook that is removed, a cache, a flag, a "
    text += "number that is drawn anew."
    spans = (*_marks(program, [call]), *span_of("related", sign.other, "run again during this backward"))
    remedies = _remedies(program.sources, [call])
    because = f"at {sign.count} steps, run once instead, it gave the same loss bit for bit, and other gradients"
    return Finding(*Proof.RERUN.at(0.97), title, text, spans, remedies=remedies, because=because)


def _told(program: Program, shapes: bool) -> Finding:
    met = _met(program.evidence.failing_node)
    calls = checkpoint_calls(program.sources) if met is None else [met]
    name = checkpointed(program.sources, calls[0]) if len(calls) == 1 else ""
    why = "its tensors have other shapes or dtypes" if shapes else "it saved another number of tensors"
    title = f"`{name}`, which is checkpointed, computed something else when it was run again" if name else PAGE.title
    text = f"The checkpointed function was run again for this backward, and {why} than in the forward. It depends on "
    text += "something that has changed in between: a cache or counter that it writes itself, what an argument holds, "
    text += "or a setting outside."
    spans = (*_marks(program, calls), *program.raised_span("run again during this backward"))
    facts = _facts(program.raised)
    remedies = _remedies(program.sources, calls)
    return Finding(*program.weight(0.95, Proof.NODE.where(met is not None)), title, text, spans, facts, remedies)


def _remedies(sources: SourceTexts, calls: list[Frame]) -> tuple[Remedy, ...]:
    """Without the checkpoint nothing is run again, and backward uses what the one forward has computed."""
    known = {f.start for f in checkpoint_calls(sources)}
    own = [c for c in calls if c.start in known]
    name = checkpointed(sources, own[0]) if len(own) == len(calls) == 1 else ""
    note = "It runs once, and what it computes stays in memory until backward."
    return remedy_at(own[0] if name else None, "call_directly", f"call `{name}` without the checkpoint", "safe", note)


def _marks(program: Program, calls: list[Frame]) -> list[Span]:
    """What is changed inside of what is run twice, and the calls that run it; else where it was noticed."""
    written = _written_state(program.evidence)
    proven = [span("cause", f, f"`{n}` is changed inside of what is run twice") for sure, n, f in written if sure]
    others = [span("related", f, f"changes `{n}`, which it also reads") for sure, n, f in written if not sure]
    marks: list[Span] = proven[:2]
    marks += [span("cause", f, "what is run here is run again in backward") for f in calls[: 3 - len(marks)]]
    marks += [] if proven else others[:2]
    frame = program.raised_at
    if not marks and frame:
        marks = [span("cause", frame, "the recomputation is compared here")]
    return marks


def _met(node: Node | None) -> Frame | None:
    """The user's line that runs the checkpoint in which the node was made at which backward stopped."""
    return innermost_user(outside(node.stack)) if node is not None and in_checkpoint(node.stack) else None


def _facts(raised: Raised | None) -> tuple[str, ...]:
    saved, again = (field_of(raised, name, *_SHAPES) for name in ("shape", "shape2"))
    if saved and again:
        return (f"the first tensor that differs: {saved} in the forward, {again} in the recomputation",)
    first, second = (field_of(raised, name, *_COUNT) for name in ("n", "m"))
    if first and second:
        return (f"tensors saved: {first} in the forward, {second} in the recomputation",)
    return ()


def _written_state(run: Evidence) -> list[tuple[bool, str, Frame]]:
    """Attributes of ``self`` that a ``forward`` both reads and writes: whether the graph shows that it ran inside of a
    checkpoint, where a second run finds them changed; the name; the place. Those inside come first."""
    inside = ran_inside(run.nodes)
    written = name_usage.state_written_by(run.sources, "forward")
    found = [((frame.file, frame.function) in inside, name, frame) for name, frame in written]
    return sorted(found, key=lambda w: not w[0])
