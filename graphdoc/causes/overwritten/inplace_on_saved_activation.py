"""GD203: an in-place operation overwrites an intermediate result that backward needs."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import Evidence
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Span
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.spans import innermost_user, span, where
from graphdoc.program.writers import written
from graphdoc.remedies.in_place_write import (
    clone_operand,
    clone_what_is_saved,
    cuts_there,
    out_of_place,
    read_elsewhere,
    write_places,
)
from graphdoc.story.message_alone import of_overwrite
from graphdoc.story.overwrite import finding, quoted, saved_by

PAGE = Page(
    code="GD203",
    title="An in-place operation overwrote an intermediate result that backward needs",
    families=("graph-reuse",),
    what_happened="""\
An intermediate result was written to after an operation had saved it: by `+=` or another augmented assignment, a method
that ends in `_` (`relu_`, `mul_`, `masked_fill_`, `clamp_`), an assignment to a slice (`y[:, 0] = …`), a module with
`inplace=True`, or `out=`. The line need not be near, nor look like a write: a function that does `x += pos` changes its
caller's tensor, and a view (`y.view(-1)`, `y[0]`, `y.T`, `y.detach()`) shares its memory with the original.

PyTorch notices when backward comes to the operation that saved the tensor. Even anomaly detection shows that reader and
not the writer.""",
    why="""\
Each operation saves what its derivative is made of, and only that. Whether a write hurts depends on what was saved:

- **its result:** `exp`, `sigmoid`, `tanh`, `relu`, `softmax`, `log_softmax`, `sqrt`, `rsqrt`. Their output must not be
  written afterwards.
- **its inputs:** `x * y`, `x / y`, `x @ y`, convolutions, `x ** 2`, `log`, `sin`, `abs`, `gelu`, `silu`, `clamp`. These
  inputs must not be written afterwards; the output may.
- **both:** `amax`, `norm`, `std`, `prod`.
- **nothing of the tensor:** `+`, `-`, `sum`, `mean`, `cat`, `stack`, `view`, indexing, multiplication by a number.

So `y = conv(x); y.relu_()` is fine (a convolution needs its input, not its output) and `y = sigmoid(x); y.mul_(2)` is
not. The version counter of a tensor tells: it is noted when the tensor is saved and compared in backward, and every
view counts on its base's counter.

In "output 0 of *X*", *X* is the operation that saved its own result. If an input was saved, *X* is the operation that
made the tensor *as it is now*: with `z += 1` recorded, the message says `Add`, the write itself.""",
    example="""\
gate = torch.sigmoid(scores)
gate *= mask               # sigmoid needs its result for the gradient
out = gate * values
out.sum().backward()""",
    use_instead="""\
gate = torch.sigmoid(scores)
gate = gate * mask         # a new tensor; the old one stays as it was
out = gate * values
out.sum().backward()""",
    fix_safety="""\
Safe: `x = x + y` instead of `x += y`, `x = x.masked_fill(…)` instead of `x.masked_fill_(…)`, `F.relu(x)` instead of
`F.relu(x, inplace=True)`, `torch.where` or `torch.cat` instead of a slice write, or a `clone()` before the write.
Forward values and gradients are those the program asked for. It costs the memory of one more tensor.

One thing to look at: if *another* name refers to the same memory and was meant to see the change (a view, the caller's
argument), it no longer does. Usually that is a second bug disappearing.

`.data` and `.detach()` are no cure. Writing through `.detach()` is counted and fails in the same way. Writing through
`.data` is not counted: the error goes away and the gradient is computed from the overwritten numbers, silently.""",
    not_this="""\
- The message has no "which is output …" part, or the shape is that of a weight: `optimizer-step-before-backward`,
  `parameter-overwritten`, `buffer-updated-in-place`.
- A tensor is filled or updated piece by piece in a loop and its older pieces are in the graph:
  `state-overwritten-in-place`.
- The error is raised by the writing line itself: `inplace-on-leaf`, `inplace-on-view`, `inplace-on-inference-tensor`.
""",
    references=(links.IN_PLACE, links.SAVED_TENSORS, links.TENSOR_VIEWS, "torch.clone"),
)


@of_overwrite(PAGE.title, Fault.ACTIVATION)
def recognise(program: Program, found: Overwrite) -> Finding:
    """The graph: a stale intermediate result, and the line that wrote it."""
    writer = found.writers[0] if found.writers else None
    who = f"{where(writer.frame)} writes into" if writer is not None and writer.frame else "Something wrote into"
    title, what = _words(found)
    text = f"{who} {what} Compute a new tensor instead of writing into this one."
    causes = _causes(program.evidence, found)
    return finding(program, found, 0.95, title, text, causes, _remedies(program, found))


def _remedies(program: Program, found: Overwrite) -> tuple[Remedy, ...]:
    """New tensors where it is written, clones where it is used; the latter first where the program reads what was
    written by another name as well, so that a new tensor changes its numbers, and where it would have no graph."""
    written = out_of_place(program.evidence, found)
    used = [*clone_what_is_saved(program.nodes, found), *clone_operand(program.evidence, found)]
    apart = any(read_elsewhere(program.evidence, w) for w in found.writers)
    apart = apart or cuts_there(found.writers)
    return (*used, *written) if apart else (*written, *used)


def _words(found: Overwrite) -> tuple[str, str]:
    """The headline, and what it is that was written: the saved tensor itself, or another part of its memory."""
    saver = saved_by(found.node)
    if part := found.shares_memory:
        return (
            f"`{part}` is changed in place, and {saver}'s backward needs its memory",
            f"`{part}`, which shares the memory of a tensor saved for backward by {saver}. A write to any part of it "
            "counts for all.",
        )
    return (
        f"{quoted(found)} is changed in place, but {saver}'s backward needs it",
        f"{quoted(found)}, which {saver} had saved for backward. The numbers that its gradient needs are gone.",
    )


def _causes(run: Evidence, found: Overwrite) -> list[Span]:
    """The writes; for a module with inplace=True also the call that built it; where none was seen, what saved."""
    out: list[Span] = []
    for w in found.writers:
        if w.frame is None:
            continue
        label = f"writes into {quoted(found, w.stale)}, which backward needs"
        if found.shares_memory and (w.stale or found.stale) is found.stale:
            label = f"writes into `{found.shares_memory}`, which shares its memory with what backward needs"
        out.append(span("cause", w.frame, label, written(run.nodes, w)))
        for built in write_places(run.sources, w):
            if (built.file, built.line) != (w.frame.file, w.frame.line):
                out.append(span("cause", built, "built to write in place"))
    saved = innermost_user(found.node.stack)
    if not out and saved is not None:
        # Who wrote was not seen: the place that saved is where a reader begins, and where a clone goes.
        out.append(span("cause", saved, f"{saved_by(found.node)} saves it; it is changed after that"))
    return out
