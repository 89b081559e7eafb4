"""GD801: some parameters of a DistributedDataParallel module took no part in the loss, so its reducer still waits."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.model import Span
from graphdoc.program.bindings import argument, call_at, text_of
from graphdoc.program.calls_in_order import Partial, partial_backward
from graphdoc.program.exception import field_of, message_of
from graphdoc.program.library_calls import library_calls
from graphdoc.program.modules_in_source import layers_without, made_at, never_read
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import span
from graphdoc.source.paths import only
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD801",
    title="Parameters of the DistributedDataParallel module took no part in the loss",
    families=("ddp",),
    what_happened="""\
In the iteration before the one that fails, some parameters of the wrapped module got no gradient: a branch or head
was not taken for that batch, an output of `forward` was not used in the loss (the `if` around its term did not hold),
a layer is defined and never called, or frozen after the wrapping (in the model's own `train()`, say), the backward was
skipped or told by `inputs=` what to reach, or it failed and the program caught its error (a batch that does not fit
into memory). The error comes at the *next* forward, one iteration late, and points at the line that calls the model.

Often the loss depends on the batch (two tasks in turn, a rare class, an auxiliary classifier), so the first steps go
well.""",
    why="""\
`DistributedDataParallel` averages gradients over all processes, in buckets, while the backward is running. Every
parameter has a hook that reports *ready*; a bucket is sent when all of its parameters have reported. A parameter
without gradient never reports. Its bucket is not sent, the other ranks wait for it, and when the next forward begins
PyTorch notices that the reduction is not finished: *Expected to have finished reduction in the prior iteration before
starting a new one*.

The message lists the indices of these parameters, counted over those that required gradients when the module was
wrapped, in the order of `module.parameters()`. With the environment variable `TORCH_DISTRIBUTED_DEBUG=DETAIL` it gives
their names.""",
    example="""\
model = DistributedDataParallel(TwoHeads())
for task, x, y in batches:
    loss = F.cross_entropy(model(x, task), y)  # the head of the other task is idle
    loss.backward()""",
    use_instead="""\
model = DistributedDataParallel(TwoHeads(), find_unused_parameters=True)
for task, x, y in batches:
    loss = F.cross_entropy(model(x, task), y)
    loss.backward()""",
    fix_safety="""\
Safe for the gradients: with `find_unused_parameters=True` the graph is searched after each forward, idle parameters
are reported ready at once, and the others are averaged as before. It costs one more walk over the graph in every
iteration. An idle parameter that has a gradient on another rank gets the average, with its own share zero.

Better where it can be had: give the optimizer only what is trained, delete layers that are never called, set
`requires_grad=False` on frozen parts *before* wrapping. If all outputs shall take part every time, add the idle ones
with weight zero: `loss + 0.0 * other.sum()`. Optimizers with momentum or weight decay still move parameters whose
gradient is zero.

The flag does not help if an output of `forward` is computed and left out of the loss on some rank, or if it is hidden
in an object in which DistributedDataParallel cannot find tensors.""",
    not_this="""\
- *Expected to mark a variable ready only once*: a parameter reported twice: `ddp-marked-ready-twice`.
- One rank fails with *element 0 of tensors does not require grad*, the others hang: `constant-loss` on that rank.
- *Your training graph has changed in this iteration ... static_graph*: with `static_graph=True` the set of used
  parameters must stay the same in all iterations.""",
    references=(
        "torch.nn.parallel.DistributedDataParallel",
        ("DistributedDataParallel: internal design", "notes/ddp.html#internal-design"),
        ("torch.distributed: debugging", "distributed.html#debugging-torch-distributed-applications"),
    ),
)


MOST_LAYERS = 3
_NAMED = ("ddp-unused-parameter-names", "ddp-unused-parameters-list")


def recognise(program: Program) -> Finding | None:
    """The reducer's message; the place is where the module was wrapped, if the source shows it."""
    if program.message("ddp-unused-parameters", *_NAMED) is None:
        return None
    partial = partial_backward(program.sources, program.journal.events)
    return _partial(program, partial) if partial is not None else _told(program)


def _told(program: Program) -> Finding:
    wraps = library_calls(program.sources, "DistributedDataParallel", "DDP")
    blind = [f for f in wraps if not _looks_for_unused(program.sources, f)]
    told = program.field("rank", *_NAMED)
    rank = f" on rank {told}" if told else ""
    idle, every = _idle(program)
    frozen = bool(idle) and {p.name for p in program.parameters if not p.requires_grad}.issuperset(idle)
    mark = "wrapped here, before they were frozen" if frozen else "wrapped here without looking for unused parameters"
    marks = [span("cause", f, mark) for f in blind[:2]]
    marks += _layers(program.sources, idle, every, rank)
    frame = program.raised_at
    noticed = "noticed at the next forward; the gradients were missing in the iteration before"
    here = [span("failed" if marks else "cause", frame, noticed)] if frame else []
    weight = program.weight(0.95, Proof.RAISED.confidence)
    text = f"In the iteration before the one that failed, some parameters of the wrapped module got no gradient{rank}. "
    text += "Their buckets were never sent to the other processes, and the next forward finds the reduction unfinished."
    text += " DDP waits for what required gradients when it was made: freeze before you wrap." if frozen else ""
    spans = (*marks, *here, *(program.raised_span("") if not here else ()))
    facts = _which(idle, program.raised)
    return Finding(*weight, _title(idle, frozen), text, spans, facts, _remedies(blind if len(wraps) == 1 else []))


def _partial(program: Program, partial: Partial) -> Finding:
    """The backward of the iteration before was kept from some leaves: that is what left the reduction unfinished."""
    noticed = program.raised_at
    how = "failed and was caught" if partial.failed else "was limited by `inputs=`"
    mark = "this backward failed: not every parameter had its gradient" if partial.failed else "reaches `inputs` alone"
    later = () if noticed is None else (span("failed", noticed, "noticed at the next forward"),)
    weight = program.weight(0.95, Proof.RAISED.where(partial.alone))
    title = f"the previous backward {how}: DDP still waits for gradients"
    text = "Every parameter of the wrapped module has to report its gradient in each backward. Those that this call "
    text += "did not reach are still missing at the next forward. "
    text += (
        "A process that skips a batch leaves the other processes waiting, too."
        if partial.failed
        else "With `inputs=` call the wrapper's own `module`, or let only what is trained require gradients."
    )
    return Finding(*weight, title, text, (span("cause", partial.place, mark), *later))


def _looks_for_unused(sources: SourceTexts, wrap: Frame) -> bool:
    """Whether this call switches the search for unused parameters on: then something else was left out of the loss."""
    asked = argument(call_at(sources, wrap), 99, "find_unused_parameters")
    return asked is not None and text_of(asked) != "False"


def _title(idle: list[str], frozen: bool) -> str:
    """The parameters by name, where they are known."""
    if not idle:
        return PAGE.title
    since = "was frozen after DDP wrapped it" if len(idle) == 1 else "were frozen after DDP wrapped them"
    what = f"{since}, and it" if frozen else "took no part in the loss, and DDP"
    return f"{_shown(idle)} {what} waits for {'their gradients' if len(idle) > 1 else 'its gradient'}"


def _idle(program: Program) -> tuple[list[str], list[str]]:
    """The parameters that got no gradient, and all that should: by the message's names, or its indices in the
    wrapper's own order, or by what has none now."""
    known = [p for p in program.parameters if p.requires_grad and not p.buffer]
    trained = [p for p in known if ".module." in p.name] or known
    orders: list[list[str]] = program.evidence.extras.get("wrapped") or []
    every = list(orders[0]) if len(orders) == 1 else [] if orders else [p.name for p in trained]
    if len({n.partition(".module." if ".module." in n else ".")[0] for n in every}) > 1:
        every = []  # several modules: whose numbers they are is not said
    named = field_of(program.raised, "names", *_NAMED)
    indices = field_of(program.raised, "indices", *_NAMED)
    if named and "..." not in named:
        names = (n.strip() for n in named.split(","))
        return [next((e for e in every if _inside(e) == n), n) for n in names if n], every
    numbers = [int(n) for n in indices.split() if n.isdigit()] if "..." not in indices else []
    if orders and numbers and max(numbers) < len(every):
        return [every[n] for n in numbers], every
    idle = [p.name for p in trained if p.grad == "none"]
    return (idle if len(idle) < len(trained) else []), every


def _inside(name: str) -> str:
    """What the wrapped module itself calls a parameter: ``head.weight`` for ``model.module.head.weight``."""
    return name.partition(".module." if ".module." in name else ".")[2]


def _shown(names: list[str]) -> str:
    return folded(_inside(n) if ".module." in n else n for n in names)


def _layers(sources: SourceTexts, idle: list[str], every: list[str], rank: str) -> list[Span]:
    """Where the idle layers are made; one that no code of the program names again is a place to change."""
    found: list[Span] = []
    idle, every = ([_inside(n) for n in names] for names in (idle if every else [], every))
    for layer in layers_without(idle, every)[:MOST_LAYERS]:
        at = made_at(sources, layer, every)
        if at is None:
            continue
        unread = never_read(sources, f"model.{next(n for n in idle if f'{n}.'.startswith(f'{layer}.'))}")
        if unread is not None and unread[0] in layer.split("."):
            found.append(span("cause", at, f"`{layer}` is made here, and nothing in the program uses it"))
        else:
            label = f"`{layer}` is made here; it got no gradient{rank} in the iteration before"
            found.append(span("created", at, label))
    return found


def _which(idle: list[str], raised: Raised | None) -> tuple[str, ...]:
    """The parameters by name, where they are known; else their indices."""
    if idle:
        return (f"without gradient: {_shown(idle)}",)
    indices = message_of(raised, "ddp-unused-parameters-list")
    if indices is None or not indices.fields.get("indices"):
        return ()
    return (f"PyTorch gives their indices on rank {indices.fields['rank']}: {indices.fields['indices']}",)


def _remedies(wraps: list[Frame]) -> tuple[Remedy, ...]:
    title = "Let DistributedDataParallel look for unused parameters"
    note = "Idle parameters are reported ready at once; the gradients of all others are averaged as before."
    return remedy_at(only(wraps), "set_keyword", title, "safe", note, name="find_unused_parameters", value="True")
