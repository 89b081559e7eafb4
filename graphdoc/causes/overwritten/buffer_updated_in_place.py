"""GD205: a buffer, queue or running statistic is used in forward and written before backward."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Evidence
from graphdoc.finding import Finding
from graphdoc.model import Span
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.spans import innermost_user, span
from graphdoc.program.writers import is_accumulation, written
from graphdoc.remedies.in_place_write import clone_operand, move_behind, out_of_place
from graphdoc.story.message_alone import of_overwrite
from graphdoc.story.overwrite import finding, first_writer, quoted, readable, saved_by

PAGE = Page(
    code="GD205",
    title="A buffer that the forward pass used was updated in place before backward",
    families=("graph-reuse",),
    what_happened="""\
A tensor that belongs to the model but is not trained takes part in the forward pass: a queue of keys, the codebook of a
quantiser, a running mean, a moving average, a mask, a counter. Before `backward()` it is updated in place, often in the
same `forward`, under `torch.no_grad()` or on a detached tensor, as such updates should be. A second forward pass
(another view of the data, another loss) that updates it does the same.

The buffer itself needs no gradient. The operation that used it does need it: the gradient of `q @ queue` with respect
to `q` *is* the queue.""",
    why="""\
A product saves both factors, so that each can be used for the gradient of the other. For `q` the saved factor is the
buffer, by reference and with its version. `torch.no_grad()` and `.detach()` switch off the recording of *operations*;
they do not switch off the counter, because a silent overwrite would give a silent wrong gradient. The message has no
"which is output" part, since no operation made the buffer.

An integer type in the message (`torch.LongTensor`, `CPUBoolType`) leaves hardly another cause: indices and masks are
saved by `gather`, indexing and `masked_fill`, and no parameter is an integer.

Not every update is counted. Batch normalisation updates `running_mean` and `running_var` without raising their version
(2.13, CPU), so two training forwards before a backward are accepted, rightly: in training mode the gradient uses the
batch's statistics. A forward in `eval()` mode does use the running ones, and if a training forward changes them
before its backward, the gradient is wrong without an error. `reset_running_stats()` is counted and raises. The
broadcast of buffers in `DistributedDataParallel` was not counted when tried (2.13, gloo on a CPU); reports from earlier
versions show it raising.""",
    example="""\
def forward(self, q, k):
    logits = q @ self.queue             # saves the queue for the gradient of q
    with torch.no_grad():
        self.queue[:, self.ptr] = k     # changes it before backward
    return logits""",
    use_instead="""\
def forward(self, q, k):
    logits = q @ self.queue.clone()     # the graph keeps its own copy
    with torch.no_grad():
        self.queue[:, self.ptr] = k
    return logits""",
    fix_safety="""\
Safe: `clone()` at the use. Values and gradients are those of the buffer at that moment; it costs a copy of the buffer
for each forward. A `clone()` on the *updating* side does not help: the graph must hold the copy.

Also right, and without a copy: make the update after `backward()`, or build a new tensor and assign it
(`self.mean = 0.9 * self.mean + 0.1 * batch_mean`), which leaves the old one to the graph. The second keeps a
registered buffer registered, but not its identity: whoever holds the old tensor keeps the old values. With a
`batch_mean` that has a graph, detach it, or the buffer carries the graph into the next iteration (`carried-state`).

Writing through `.data` only hides the error: it is not counted, and the gradient is that of the new values.""",
    not_this="""\
- The tensor is a parameter, written by an optimizer: `optimizer-step-before-backward`; by a copy or a soft update:
  `parameter-overwritten`.
- The buffer carries a graph of its own and is written in a loop: `state-overwritten-in-place`.
- Under `DistributedDataParallel`, the broadcast of buffers at a second forward: `ddp-buffer-broadcast`.""",
    references=(links.IN_PLACE, links.MODULE_BUFFERS, "torch.clone"),
)


@of_overwrite(PAGE.title, Fault.OUTLIVES)
def recognise(program: Program, found: Overwrite) -> Finding:
    """The graph: a stale tensor that is a buffer, or plain data that outlives the forward pass."""
    what = quoted(found)
    itself = f"{saved_by(found.node)} saved {what} itself, not a copy"
    title = f"{what} is updated in place between forward and backward"
    text = f"{itself}, and {first_writer(found)} changed it before this backward. Use a clone of it in the forward "
    text += "pass, or update it after backward."
    if found.writers and all(map(is_accumulation, found.writers)):
        title = f"backward itself adds to {what}, which it still needs"
        text = f"{itself}; and it is the `.grad` of a leaf, to which the engine adds in backward calls, in place. Use "
        text += "a clone of it in the forward pass."
    run = program.evidence
    remedies = (*clone_operand(run, found), *out_of_place(run, found), *move_behind(program, found))
    return finding(program, found, 0.95, title, text, _causes(run, found), remedies)


def _causes(run: Evidence, found: Overwrite) -> list[Span]:
    """The writes, and the use of the buffer itself."""
    out: list[Span] = []
    for w in found.writers[:2]:
        if w.frame is not None:
            text = f"{readable(w)} updates {quoted(found, w.stale)} in place"
            out.append(span("cause", w.frame, text, written(run.nodes, w)))
    used = innermost_user(found.node.stack)
    if used is not None:
        out.append(span("cause", used, f"{quoted(found)} itself is saved here, without a copy"))
    return out
