"""GD106: the loss accumulates over iterations, and backward runs on the sum."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.causes.second_backward import told
from graphdoc.evidence import SourceTexts
from graphdoc.finding import Finding
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import short_code, user_line
from graphdoc.story.message_alone import of_older_graph
from graphdoc.story.older_graph import accumulators, before, names_of

PAGE = Page(
    code="GD106",
    title="backward() runs on a loss that is still being added up over the iterations",
    families=("graph-reuse",),
    what_happened="""\
A variable collects the loss (`total_loss += loss`), and `backward()` is called on the collecting variable inside the
loop, or a second time after it went on collecting. The sum holds the graphs of all its terms. The first call frees the
graph of the first term; in the next iteration that term is still in the sum, and the walk comes to it again. A reset
that is missing between two phases (a second pass, the next epoch) has the same effect.""",
    why="""\
`total_loss + loss` is an operation like any other: its node has one edge to the new loss and one to the former total.
`+=` on a tensor that has a graph records the same edges. Setting the gradients to zero does not help, since
`zero_grad()` touches `.grad` and not the graph.

Nor would the result be the wanted one if the graph were kept. With `retain_graph=True` the first term is differentiated
in every iteration, the second in all but one: after *n* iterations the first loss has counted *n* times. Gradients
accumulate without any help: each `backward()` *adds* to `.grad`.""",
    example="""\
total_loss = 0
for x, y in batches:
    total_loss += F.mse_loss(model(x), y)
    optimizer.zero_grad()
    total_loss.backward()
    optimizer.step()
print(total_loss.item())""",
    use_instead="""\
total_loss = 0.0
for x, y in batches:
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss.item()  # a number, for the log
print(total_loss)""",
    fix_safety="""\
Unsafe, because it decides what one step trains on.

- **One step for each batch:** call `backward()` on this iteration's loss and keep a number for the log: `loss.item()`,
  or `loss.detach()`, which does not wait for the GPU. The first iteration trains as before; the later ones no longer
  contain the old batches.
- **One step for all of them:** leave the sum and move `zero_grad()`, `backward()` and `step()` after the loop. The
  memory of all the graphs is needed at once. A sum that is used again must start from zero again.
- **Gradient accumulation:** call `backward()` on each batch's own loss, and `step()` and `zero_grad()` every *k*
  batches. This gives the gradient of the sum with the memory of one batch.""",
    not_this="""\
- What is added up is not the loss but a state, an average or a penalty that the loss uses: `carried-state`.
- The sum is used for the log alone and never differentiated: no error, but memory grows (`graph-grows`).
- The same, unchanged loss is differentiated twice: `repeated-backward`.""",
    references=(links.FAQ_MEMORY, "torch.Tensor.backward", "torch.optim.Optimizer.zero_grad"),
)


@of_older_graph(PAGE.title)
def recognise(program: Program, reuse: Reuse) -> Finding | None:
    """The graph: the loss is a sum, and one side of it is the root of an earlier backward call.

    Certain: the node that an earlier call started from lies in the failing graph, by its sequence number.
    """
    return _told(program, reuse) if reuse.lifetime is Lifetime.SUMMED else None


def _told(program: Program, reuse: Reuse) -> Finding:
    named = names_of(reuse.carries, 1) if reuse.same_line else _summed(program.sources, reuse)
    title = f"{named} still contains losses that an earlier `backward()` has differentiated" if named else PAGE.title
    text = "The loss of an earlier backward call is still a term of this one, and the graph of that term has been "
    text += "freed. Start each sum again from zero, and add up numbers (`.item()`) where only the total is wanted."
    because = f"a term of this loss was made {before(reuse)}, which differentiated it already"
    return told(program, reuse, Proof.OLDER_EDGE.at(0.97), title, text, accumulators(program, reuse), because)


def _summed(sources: SourceTexts, reuse: Reuse) -> str:
    """The sum by the expression of the call that failed, where its terms were differentiated by another line."""
    frame = user_line(reuse.failing)
    what, call, _ = short_code(sources, frame).partition(".backward(")
    return f"`{what}`" if call else ""
