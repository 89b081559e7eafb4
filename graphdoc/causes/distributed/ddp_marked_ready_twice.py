"""GD802: a parameter of a DistributedDataParallel module reported its gradient twice in one backward."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program import name_usage
from graphdoc.program.library_calls import in_checkpoint, reentrant_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import code_at, span
from graphdoc.source.paths import only
from graphdoc.story.message_alone import of_message

PAGE = Page(
    code="GD802",
    title="A parameter of the DistributedDataParallel module reported its gradient twice",
    families=("ddp",),
    what_happened="""\
In one iteration the gradient of a parameter arrived at the reducer more than once. Three constructions do that:

- **reentrant checkpointing** (`checkpoint(..., use_reentrant=True)`): it runs a backward of its own for each piece
  inside the backward. A piece that occurs twice, or `find_unused_parameters=True` together with any such checkpoint,
  makes a parameter report twice;
- **a parameter that is used outside of the wrapped forward**: `model.module.head.weight` in a regularisation term, or
  the inner module called directly. With `find_unused_parameters=True` it was reported as unused after the forward,
  and reports again when its gradient comes;
- a parameter that is shared between two passes of which one runs while the backward of the other does.""",
    why="""\
Each parameter has a hook that marks it as ready when its gradient is complete, and a bucket is averaged when all of
its parameters are. A second report could come after the bucket has left: this gradient would be missing in the
average and the processes would drift apart. So the reducer stops: *Expected to mark a variable ready only once*.

Reentrant checkpoints break the assumption that one backward pass delivers each gradient once and complete. The
non-reentrant form recomputes inside of the same pass and keeps it.""",
    example="""\
def forward(self, x):
    for _ in range(2):
        x = checkpoint(self.block, x, use_reentrant=True)  # the same block, two inner backwards
    return x""",
    use_instead="""\
def forward(self, x):
    for _ in range(2):
        x = checkpoint(self.block, x, use_reentrant=False)
    return x""",
    fix_safety="""\
Safe for checkpoints: `use_reentrant=False` computes the same gradients and is what PyTorch recommends; it also works
with `torch.autograd.grad` and with inputs that need no gradient.

Where a parameter is used outside of the forward: compute that term *inside* of the wrapped module's forward and
return it. Dropping `find_unused_parameters=True` ends the message too, if all parameters really are used in every
iteration.

`static_graph=True` is a way out only if the same parameters take part the same number of times in each iteration.""",
    not_this="""\
- *Expected to have finished reduction in the prior iteration*: a parameter reported never: `ddp-unused-parameters`.
- *Trying to backward through the graph a second time* under DistributedDataParallel is the ordinary error, see GD1.""",
    references=(
        ("torch.utils.checkpoint", "checkpoint.html"),
        "torch.nn.parallel.DistributedDataParallel",
        ("DistributedDataParallel: internal design", "notes/ddp.html#internal-design"),
    ),
)


@of_message("ddp-marked-ready-twice")
def recognise(program: Program) -> Finding:
    """The reducer's message; the reason is read off the source: a reentrant checkpoint, or ``model.module``.

    Certain where the exception came out of the backward that the reentrant checkpoint runs inside.
    """
    checkpoints = reentrant_calls(program.sources)
    proven = program.raised is not None and in_checkpoint(program.raised.stack)
    outside = _outside(program.sources)
    marks = [span("cause", f, "a reentrant checkpoint runs a backward of its own") for f in checkpoints[:2]]
    if not marks:
        marks = [span("cause", f, "a parameter is used outside of the wrapped forward") for f in outside[:2]]
    named = program.field("name", "ddp-parameter-twice")
    why = (
        "A reentrant checkpoint runs an inner backward, and a gradient that two of them deliver is reported twice."
        if checkpoints
        else "A parameter is used outside of the wrapped module's forward, or in two passes at the same time."
        if outside
        else "One backward came to the same parameter in two ways that the reducer counts apart: parts of the module "
        "under reentrant checkpoints, or a use outside of its forward."
    )
    weight = program.weight(0.95, Proof.RAISED.where(proven and bool(checkpoints)))
    title = f"`{named}` reported its gradient twice to DistributedDataParallel" if named else PAGE.title
    text = why + " The reducer averages each gradient once, so it stops."
    spans = (*marks, *program.raised_span("reported a second time in this backward"))
    return Finding(*weight, title, text, spans, (f"the parameter is {named}",) if named else (), _remedies(checkpoints))


def _outside(sources: SourceTexts) -> list[Frame]:
    """Expressions that reach through a wrapper to a parameter: ``model.module.head.weight``."""
    found = name_usage.attributes_through(sources, "module")
    return [f for f in found if not code_at(sources, f).startswith("torch.nn")]


def _remedies(checkpoints: list[Frame]) -> tuple[Remedy, ...]:
    title = "Use the non-reentrant checkpoint"
    note = "The gradients are the same; they are computed in one backward pass."
    return remedy_at(only(checkpoints), "set_keyword", title, "safe", note, name="use_reentrant", value="False")
