"""GD811: a graph or a wrapper of before keeps AccumulateGrad nodes of another CUDA stream alive."""

from __future__ import annotations

import ast

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.program.bindings import frame_of, source_at, statement_at
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import likely, signs
from graphdoc.program.spans import innermost_user, span, span_of
from graphdoc.source.paths import only
from graphdoc.story.wording import folded, listing

PAGE = Page(
    code="GD811",
    title="An older graph keeps AccumulateGrad nodes of another CUDA stream",
    families=("silent",),
    what_happened="""\
Each parameter has one AccumulateGrad node at a time, which adds what arrives to `.grad`. It belongs to the stream on
which it was made, and lives as long as a graph leads to it. Something has kept it since another stream was current:

- **a loss or an output of a warm-up** under `torch.cuda.stream(...)`, which a variable still holds;
- **a list or an attribute** that stores results of earlier iterations with their graph;
- **DistributedDataParallel**, which keeps the nodes of all its parameters from where it was made.""",
    why="""\
The gradient arrives on one stream and is added on another, so the engine has to wait between the two. The numbers are
right. It costs time at each step, and a CUDA graph cannot be captured across it: PyTorch 2.10 and later warn of it.""",
    example="""\
with torch.cuda.stream(side):
    loss = model(x).square().mean()  # warm-up
    loss.backward()
with torch.cuda.graph(graph):
    model(x).square().mean().backward()  # `loss` still leads to the nodes of `side`""",
    use_instead="""\
with torch.cuda.stream(side):
    loss = model(x).square().mean()
    loss.backward()
del loss
with torch.cuda.graph(graph):
    model(x).square().mean().backward()""",
    fix_safety="""\
Unsafe: a name that is deleted lets its graph go, and a later line that reads it fails. Display only for what a
container holds: stored with `.detach()`, its numbers stay and its graph goes.

Where the two streams are meant, `torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)` switches
the warning off, and nothing else.""",
    not_this="""\
- Memory grows from step to step as well: `graph-grows`.
- Backward fails because the old graph is used up: the causes of the first group.""",
    references=(
        ("torch.autograd.graph", "autograd.html#saved-tensors-hooks-for-the-default-device"),
        ("CUDA semantics: stream semantics of backward passes", "notes/cuda.html#stream-semantics-of-backward-passes"),
    ),
)

_OFF = "A gradient then arrives on the stream on which it is added."


def recognise(program: Program) -> Finding | None:
    """PyTorch warned of two streams, and something of before leads to the same nodes."""
    found = signs(program.signs, "kept-collector")
    wrapped = [s for s in found if s.facts.get("wrapped")]
    if wrapped:  # it keeps the nodes from its own beginning, whatever else leads to them
        return _wrapped(program.sources, wrapped[0])
    return _kept(program.sources, found) if found else None


def _wrapped(sources: SourceTexts, sign: Sign) -> Finding:
    at = only(library_calls(sources, "DistributedDataParallel"))
    made = span_of("cause", at, "made here, and keeps a node of each parameter")
    title = "make the DistributedDataParallel on the stream on which you train"
    weight = likely(0.7)  # that it was made on another stream is no fact of the run
    headline = "DistributedDataParallel was made on another CUDA stream"
    text = "The wrapper keeps the AccumulateGrad nodes of its parameters, and they belong to the stream that was "
    text += "current when it was made. The gradients of this backward call arrive on another one."
    spans = (*made, *span_of("related" if made else "cause", sign.other, "brings gradients on another stream"))
    remedies = (Remedy("wrap_on_stream", title, "display", _OFF),)
    because = f"PyTorch warned of two streams, and a wrapper has hooks in {folded(sign.parameters) or 'parameters'}"
    return Finding(*weight, headline, text, spans, remedies=remedies, because=because)


def _kept(sources: SourceTexts, found: list[Sign]) -> Finding | None:
    places = [(f, str(s.facts["name"])) for s in found if (f := innermost_user(s.stack)) is not None]
    if not places:
        return None
    inside, names = any(s.facts["inside"] for s in found), list(dict.fromkeys(name for _, name in places))
    stored = "a result of this is stored in" if inside else "its result is kept as"
    spans = [span("cause", at, f"{stored} `{name}`") for at, name in places]
    first, reached = found[0], folded(found[0].parameters) or "parameters"
    keep = "keeps" if len(names) == 1 else "keep"
    return Finding(
        *likely(0.7),  # whose stream a node has is in no graph
        f"{listing(f'`{n}`' for n in names)} {keep} gradient nodes of another CUDA stream",
        "An AccumulateGrad node belongs to the stream on which it was made, and lives as long as a graph leads to it. "
        "The gradients of this backward call arrive on another stream.",
        (*spans, *span_of("related", first.other, "brings gradients on another stream")),
        remedies=_remedies(sources, names, inside, [at for at, _ in places], innermost_user(first.other)),
        because=f"PyTorch warned of two streams, and an older graph leads to {reached}",
    )


def _remedies(
    sources: SourceTexts, names: list[str], inside: bool, made: list[Frame], at: Frame | None
) -> tuple[Remedy, ...]:
    after = _before_last(sources, made, at)
    if after is not None and not inside and all(n.isidentifier() for n in names):
        gone = f"del {', '.join(names)}"
        title = f"let the old graph go: `{gone}`"
        return remedy_at(after, "add_statement", title, "unsafe", _OFF, statement=gone, before=True)
    title = f"keep what is in {listing(f'`{n}`' for n in names)} without its graph: `.detach()`"
    return (Remedy("detach_expression", title, "display", _OFF),)


def _before_last(sources: SourceTexts, made: list[Frame], at: Frame | None) -> Frame | None:
    """The statement that holds the backward call and none of these places, in one function with them."""
    if at is None or any(not m.in_function_of(at) for m in made):
        return None
    source, inner, last = source_at(sources, at), statement_at(sources, at), max(m.line for m in made)
    around = [inner, *source.node_ancestors(inner)] if inner is not None else []
    below = [s for s in around if isinstance(s, ast.stmt) and s.lineno > last]
    return frame_of(sources, at.file, below[-1]) if below else None
