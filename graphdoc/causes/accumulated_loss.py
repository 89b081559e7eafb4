"""GD106: the loss accumulates over iterations, and backward runs on the sum."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Cause, Example, Finding, Page
from graphdoc.causes.oldgraph import accumulators, before, calls_of, facts_of, flow, names_of
from graphdoc.causes.reuse import analyse
from graphdoc.causes.separating import remedies_for
from graphdoc.causes.spans import distinct
from graphdoc.causes.text import SECOND_TIME, from_message
from graphdoc.evidence import Evidence

TITLE = "backward() runs on a loss that is still being added up over the iterations"

PAGE = Page(
    what_happened="""\
A variable collects the loss (`total_loss += loss`), and `backward()` is called on the collecting variable inside the
loop, or a second time after it went on collecting. The sum holds the graphs of all its terms. The first call frees the
graph of the first term; in the next iteration that term is still in the sum, and the walk comes to it again. A reset
that is missing between two phases (a second pass, the next epoch) has the same effect.
""",
    why="""\
`total_loss + loss` is an operation like any other: its node has one edge to the new loss and one to the former total.
`+=` on a tensor that has a graph records the same edges. Setting the gradients to zero does not help, since
`zero_grad()` touches `.grad` and not the graph.

Nor would the result be the wanted one if the graph were kept. With `retain_graph=True` the first term is differentiated
in every iteration, the second in all but one: after *n* iterations the first loss has counted *n* times. Gradients
accumulate without any help: each `backward()` *adds* to `.grad`.
""",
    example="""\
total_loss = 0
for x, y in batches:
    total_loss += F.mse_loss(model(x), y)
    optimizer.zero_grad()
    total_loss.backward()
    optimizer.step()
print(total_loss.item())
""",
    use_instead="""\
total_loss = 0.0
for x, y in batches:
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss.item()  # a number, for the log
print(total_loss)
""",
    fix_safety="""\
Unsafe, because it decides what one step trains on.

- **One step for each batch:** call `backward()` on this iteration's loss and keep a number for the log: `loss.item()`,
  or `loss.detach()`, which does not wait for the GPU. The first iteration trains as before; the later ones no longer
  contain the old batches.
- **One step for all of them:** leave the sum and move `zero_grad()`, `backward()` and `step()` behind the loop. The
  memory of all the graphs is needed at once. A sum that is used again must start from zero again.
- **Gradient accumulation:** call `backward()` on each batch's own loss, and `step()` and `zero_grad()` every *k*
  batches. This gives the gradient of the sum with the memory of one batch.
""",
    not_this="""\
- What is added up is not the loss but a state, an average or a penalty that the loss uses: `carried-state`.
- The sum is used for the log alone and never differentiated: no error, but memory grows (`graph-grows`).
- The same, unchanged loss is differentiated twice: `repeated-backward`.
""",
    references=(links.FAQ_MEMORY, links.BACKWARD, links.ZERO_GRAD),
)

SICK = (
    Example(
        name="running-total-in-the-loop",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0
for _ in range(3):
    x = torch.randn(4, 3)
    total_loss += (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    total_loss.backward()
    optimizer.step()
""",
        fails="backward through the graph a second time",
        line="total_loss += (model(x) - x.sum(1, keepdim=True)).pow(2).mean()",
    ),
    Example(
        name="epoch-total-never-reset",
        code="""\
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.epoch_loss = torch.zeros(())

    def training_step(self, x):
        self.epoch_loss = self.epoch_loss + self.model(x).pow(2).mean()

    def end_of_epoch(self):
        self.optimizer.zero_grad()
        self.epoch_loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(nn.Linear(3, 1))
for epoch in range(2):
    for _ in range(3):
        trainer.training_step(torch.randn(4, 3))
    trainer.end_of_epoch()
""",
        fails="backward through the graph a second time",
        line="self.epoch_loss = self.epoch_loss + self.model(x).pow(2).mean()",
    ),
)

HEALTHY = (
    Example(
        name="number-for-the-log",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0
for _ in range(3):
    x = torch.randn(4, 3)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total_loss += loss.item()
print(total_loss)
""",
    ),
    Example(
        name="sum-of-a-whole-epoch-then-one-backward",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    total_loss = 0
    for _ in range(4):
        total_loss += model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    total_loss.backward()
    optimizer.step()
""",
    ),
    Example(
        name="gradient-accumulation",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(1, 9):
    loss = model(torch.randn(4, 3)).pow(2).mean() / 4
    loss.backward()
    if i % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    ),
)


def recognise(evidence: Evidence) -> Finding | None:
    """The graph: the loss is a sum, and one side of it is the root of an earlier backward call."""
    reuse = analyse(evidence)
    if reuse is None or not evidence.nodes:
        return _from_text(evidence)
    if reuse.kind != "accumulated-loss":
        return None
    named = names_of(evidence, reuse.carries, 1)
    return Finding(
        0.97,
        "certain",
        f"{named} adds up the losses with their graphs, and each backward walks the earlier ones again"
        if named
        else TITLE,
        "The loss of an earlier backward call is still a term of this one, so this call walks the earlier graph again, "
        "which is used up. Start each sum anew, and keep numbers where only the total is wanted.",
        distinct((*accumulators(evidence, reuse), *flow(evidence, reuse), *calls_of(evidence, reuse))),
        facts_of(evidence, reuse),
        remedies_for(evidence, reuse),
        because=f"a term of this loss was made {before(evidence, reuse)}, which differentiated it already",
    )


def _from_text(evidence: Evidence) -> Finding | None:
    """Text alone."""
    return from_message(
        evidence,
        SECOND_TIME,
        strength=0.28,
        title=TITLE,
        explanation=(
            "If the tensor that backward is called on is added up over iterations (`total += loss`), it still holds "
            "the terms that an earlier backward has freed. Call backward on this iteration's loss and add up numbers."
        ),
        label="this backward reaches a part of the graph that an earlier one has freed",
    )


CAUSE = Cause(
    code="GD106",
    slug="accumulated-loss",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("graph-reuse",),
    sick=SICK,
    healthy=HEALTHY,
)
