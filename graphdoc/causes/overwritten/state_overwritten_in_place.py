"""GD204: a state is filled or moved on in place, step by step, while the graph needs its earlier values."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.finding import Finding
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Fault, Overwrite
from graphdoc.program.spans import span
from graphdoc.program.writers import written
from graphdoc.remedies.in_place_write import clone_operand, cuts_there, out_of_place
from graphdoc.story.message_alone import of_overwrite
from graphdoc.story.overwrite import called, finding

PAGE = Page(
    code="GD204",
    title="A state tensor is overwritten step by step while the graph still needs its earlier values",
    families=("graph-reuse",),
    what_happened="""\
A tensor holds the states of a loop: `h[t] = cell(x[t], h[t - 1])`, a memory matrix whose rows are replaced, positions
that a simulator moves on with `+=`. Each step reads the tensor (or a piece of it) and later steps write into it. What
was read went into the graph as a view of this one tensor. By the time of `backward()` the tensor has been written again
and again, and every earlier read is out of date, also those of rows that were never written a second time.""",
    why="""\
A slice is a view: `h[t - 1]` has no memory and no version counter of its own, it shares both with `h`. A write to *any*
row raises the one counter that all rows share, and PyTorch keeps no record of which elements were touched. So an
operation that saved `h[t - 1]` finds, after `h[t] = …`, a version that is 1 too high, although its own row is intact.

The gap in the message counts the writes that came after the read. For reads in a loop the one that backward reaches
first, the last, is usually 1 behind; earlier ones would be further.

Filling a tensor is not wrong in itself. Autograd records a slice assignment as `CopySlices`, and `out[t] = f(x[t])` in
a loop works, as long as nothing reads `out` (in an operation that saves it) before the last write.""",
    example="""\
h = torch.zeros(steps + 1, 16)
for t in range(steps):
    h[t + 1] = torch.tanh(layer(h[t]))  # the product in `layer` saves the view h[t]
loss = h.pow(2).mean()
loss.backward()""",
    use_instead="""\
h = [torch.zeros(16)]
for t in range(steps):
    h.append(torch.tanh(layer(h[-1])))  # every state is a tensor of its own
loss = torch.stack(h).pow(2).mean()
loss.backward()""",
    fix_safety="""\
Safe: collecting the states in a list and joining them with `torch.stack` (or `torch.cat`) gives the same values and the
gradients that the loop asked for. A simulator's `self.pos += v * dt` becomes `self.pos = self.pos + v * dt`; a row
that is replaced becomes `torch.where` or `torch.index_put`, or a `clone()` of the whole state before the write.

Reading through a copy (`layer(h[t].clone())`) is enough as well, and the smaller edit; every read that is saved needs
it.

If several places write (an integrator and a reset), all of them have to change: with one left, the error moves to it.
""",
    not_this="""\
- One single write to a result, no loop: `inplace-on-saved-activation`.
- The tensor is a registered buffer, a queue or a statistic without a graph of its own: `buffer-updated-in-place`.
- A two-dimensional shape that is that of a weight, reversed: `optimizer-step-before-backward`; such a weight is an
  "output of AsStrided" in the same way as a slice.
- The write itself raises: `inplace-on-view`.""",
    references=(links.TENSOR_VIEWS, links.IN_PLACE, "torch.stack"),
)


@of_overwrite(PAGE.title, Fault.STATE)
def recognise(program: Program, found: Overwrite) -> Finding:
    """The graph: one tensor that lives on is written step after step, and earlier steps have saved it."""
    what = f"`{found.target.path}`" if found.target.path else called(found.stale)
    times = len(found.stales)
    anew = out_of_place(program.evidence, found)
    used = clone_operand(program.evidence, found)
    title = f"{what} is changed in place at every step, and backward needs its old values"
    text = f"{what} is one tensor that every step changes in place; {times} operation{'s' if times > 1 else ''} of "
    text += "this graph saved it, or a part of it, before a later change. All parts of a tensor share one version. "
    text += "Give each step a tensor of its own."
    remedies = (*used, *anew) if cuts_there(found.writers) else (*anew, *used)
    label, nodes = "changes in place what earlier steps have saved", program.evidence.nodes
    causes = [span("cause", w.frame, label, written(nodes, w)) for w in found.writers if w.frame is not None]
    return finding(program, found, 0.95, title, text, causes, remedies)
