"""GD803: DistributedDataParallel overwrote buffers in a second forward before the first had its backward."""

# No sick example: it takes two processes, and PyTorch 2.13 hides these writes from the version counter, so that the
# programs that failed in earlier versions run to the end there.

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Frame, Stale
from graphdoc.finding import Finding, remedy_at
from graphdoc.program.exception import VERSION
from graphdoc.program.library_calls import library_calls
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_user, span_of
from graphdoc.source.paths import only

PAGE = Page(
    code="GD803",
    title="DistributedDataParallel overwrote a buffer that a forward before this backward had used",
    families=("graph-reuse",),
    what_happened="""\
The wrapped model was called twice before one backward: two views of a batch, a generator's real and fake pass, an
anchor and a positive. The model has buffers that take part in the computation (the running statistics of batch
normalisation in `eval`, a centre, a mask, a table of positions). The second call overwrote them, and backward of the
first needs the old ones: *one of the variables needed for gradient computation has been modified by an inplace
operation*.

The program never writes to the buffer, and the same program is right with one process.""",
    why="""\
So that all processes work with the same buffers, `DistributedDataParallel` copies those of rank 0 to the others *at
the start of every forward*, in place. This counts as a write, also where the values happen to be the same. A graph
that has saved the buffer is invalid after it, exactly as if the program had written `buffer.copy_(...)`. With one
process nothing is broadcast, which is why the error comes with the second one.

Newer versions (2.13 among them) keep this copying out of the version counter, and the error is gone. The write is
still there: if the buffer differed between the processes, backward of the first forward now computes with the new
values and nobody notices.""",
    example="""\
model = DistributedDataParallel(net)
za, zb = model(view_a), model(view_b)  # the second call writes the buffers that the first has saved
loss = contrast(za, zb)
loss.backward()""",
    use_instead="""\
model = DistributedDataParallel(net)
za, zb = model(torch.cat([view_a, view_b])).chunk(2)  # one forward for both
loss = contrast(za, zb)
loss.backward()""",
    fix_safety="""\
Safe for layers that treat each sample alone: one forward of the joined batch gives the same outputs. With batch
normalisation in training the statistics are then those of the joined batch.

`broadcast_buffers=False` switches the copying off. It is right if the buffers are constants, or if each process may
keep its own statistics (use `SyncBatchNorm` to share them in the forward); the saved model is then that of rank 0.
Newer versions call the option `forward_sync_buffers`; see the documentation of the version in use.

If the module itself writes the buffer in forward, it needs a clone at the use as well: `buffer-updated-in-place`.""",
    not_this="""\
- It fails with one process as well: the module writes its buffer: `buffer-updated-in-place`.
- The tensor is a parameter: an optimizer stepped in between: `optimizer-step-before-backward`.""",
    references=(
        (
            "torch.nn.parallel.DistributedDataParallel: broadcast_buffers",
            "generated/torch.nn.parallel.DistributedDataParallel.html",
        ),
        links.IN_PLACE,
        links.MODULE_BUFFERS,
    ),
)


def recognise(program: Program) -> Finding | None:
    """A stale buffer whose last write came out of DistributedDataParallel's own forward."""
    if program.evidence.from_text or program.message(*VERSION) is None:
        return None
    stale = next((s for s in program.evidence.stale if s.tensor.kind in ("buffer", "unknown") and _by_ddp(s)), None)
    return _told(program, stale) if stale is not None else None


def _told(program: Program, stale: Stale) -> Finding:
    name = stale.tensor.name or "a buffer"
    write = next((w for w in stale.writes if _ddp_frames(w.stack)), None)
    node = program.node(stale.node)
    used = span_of("created", node.stack, f"{name} is used here") if node else ()
    frame = innermost_user(write.stack) if write else None
    wraps = library_calls(program.sources, "DistributedDataParallel", "DDP")
    title = f"DistributedDataParallel overwrote `{name}`, which a forward before this backward had used"
    title = title if stale.tensor.name else PAGE.title
    text = f"At the start of this forward DistributedDataParallel copied the buffers of rank 0 into {name}, in place. "
    text += "An earlier forward had saved it and has not had its backward yet."
    spans = (
        *span_of("cause", frame, "this forward overwrites the buffers"),
        *used,
        *program.raised_span("this backward needs the buffer as it was"),
    )
    facts = (f"{name}: version {stale.current}, expected {stale.expected}",)
    fix = "Do not broadcast buffers in forward"
    note = "Each process then keeps its own buffers; right for constants and for statistics that need not be the same."
    remedies = remedy_at(only(wraps), "set_keyword", fix, "unsafe", note, name="broadcast_buffers", value="False")
    return Finding(*program.weight(0.96, Proof.WRITERS.confidence), title, text, spans, facts, remedies)


def _by_ddp(stale: Stale) -> bool:
    """Whether DDP wrote, and the other writes do not account for all that the version moved on.

    The broadcast of newer versions writes without counting.
    """
    others = sum(w.count for w in stale.writes if not _ddp_frames(w.stack))
    return others < stale.current - stale.expected and any(_ddp_frames(w.stack) for w in stale.writes)


def _ddp_frames(stack: list[Frame]) -> bool:
    """Whether DDP itself was at work: its frames lie below the user's, not above the user's own module."""
    own = next((i for i in range(len(stack) - 1, -1, -1) if stack[i].user), -1)
    return any(f.file.replace("\\", "/").endswith("torch/nn/parallel/distributed.py") for f in stack[own + 1 :])
