"""GD303: gradient recording was off while the loss, or what it is built from, was computed."""

from __future__ import annotations

from graphdoc.causes import links, names
from graphdoc.causes.base import Cause, Example, Finding, Page, Remedy
from graphdoc.causes.cutting import facts_of, find_cut, in_checkpoint, same_line, story, unseen, weigh, without_graph
from graphdoc.causes.remedies import remedy_at
from graphdoc.causes.spans import code_at, distinct, innermost, span, where
from graphdoc.evidence import Cut, Evidence, Frame

TITLE = "Gradient recording was switched off while the loss was computed"

PAGE = Page(
    what_happened="""\
The forward ran under `torch.no_grad()`, `torch.inference_mode()` or `torch.set_grad_enabled(False)`, and then a
`backward()` was asked for. In that mode PyTorch computes values and records nothing: every result has
`requires_grad == False`, although all parameters have it True and every layer is in order.

The switch is often far from the loss:

- a decorator on a method that is now used for training as well (`@torch.no_grad()` on `encode`, `act`, `features`);
- a caller higher up, such as an evaluation loop that runs a module whose forward calls `backward` itself;
- `torch.set_grad_enabled(False)` as a statement, left on after a validation pass;
- a `with` block that is longer than it looks, with the loss inside its indentation.
""",
    why="""\
Whether an operation is recorded is decided when it runs, by the grad mode of the current thread, not when
`backward()` is called. Nothing can be added later: the graph of these operations does not exist. `backward()` finds a
root without `grad_fn` and raises *element 0 of tensors does not require grad and does not have a grad_fn*.

`model.eval()` is another thing. It changes dropout and batch normalisation and leaves the grad mode alone; likewise
`model.train()` does not switch recording on. `torch.enable_grad()` inside a `no_grad` block records again from there
on, and cannot bring back what was computed before. Inside `inference_mode` it has no effect at all: only
`torch.inference_mode(False)` ends that mode.
""",
    example="""\
@torch.no_grad()
def features(x):
    return backbone(x)


loss = F.cross_entropy(features(x), y)  # the whole backbone ran unrecorded
loss.backward()
""",
    use_instead="""\
def features(x):
    return backbone(x)


loss = F.cross_entropy(features(x), y)
loss.backward()

with torch.no_grad():  # the switch stands where nothing is to be learned
    score = features(validation_x)
""",
    fix_safety="""\
Unsafe: recording this part means that its parameters receive gradient, and that its activations stay in memory until
`backward()`. Where the part was meant to be a frozen extractor, the switch is right and something trainable has to
stand behind it (a head that is *outside* of the block).

Prefer moving the switch to the callers that only evaluate. Opening `torch.enable_grad()` inside a function that
somebody calls under `no_grad` also works, but it builds a graph in every evaluation.

When a training step is run for its numbers only (a loss module that calls `backward` itself, in evaluation), the
right change is to skip the backward: `if torch.is_grad_enabled(): loss.backward()`.
""",
    not_this="""\
- Grad mode is on and a single operation drops the graph: `cut-by-detach`, `cut-by-conversion`,
  `nondifferentiable-op`.
- Grad mode is on and no parameter has `requires_grad=True`: `frozen-parameters`.
- The message is *Inference tensors cannot be saved for backward*: `inplace-on-inference-tensor`.
- A reentrant checkpoint with inputs that need no gradient: `checkpoint-no-grad-input`.
""",
    references=(
        links.GRAD_MODES,
        links.NO_GRAD,
        links.INFERENCE_MODE,
        (
            "torch.set_grad_enabled",
            "https://docs.pytorch.org/docs/stable/generated/torch.autograd.grad_mode.set_grad_enabled.html",
        ),
    ),
)

SICK = (
    Example(
        name="decorator-left-on-a-method",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Linear(8, 2)

    @torch.no_grad()
    def logits(self, obs):
        return self.head(self.body(obs))

    def act(self, obs):
        return self.logits(obs).argmax().item()

    def imitate(self, obs, action):
        return nn.functional.cross_entropy(self.logits(obs), action)


agent = Agent()
print(agent.act(torch.randn(4)))
loss = agent.imitate(torch.randn(6, 4), torch.randint(2, (6,)))
loss.backward()
""",
        fails="does not require grad and does not have a grad_fn",
        line="@torch.no_grad()",
    ),
    Example(
        name="loss-inside-the-block",
        code="""\
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(5, 3)
teacher = torch.nn.Linear(5, 3)
x = torch.randn(8, 5)
with torch.no_grad():
    goal = teacher(x).softmax(-1)
    logits = model(x)
    loss = F.kl_div(logits.log_softmax(-1), goal, reduction="batchmean")
loss.backward()
""",
        fails="does not require grad and does not have a grad_fn",
        line="with torch.no_grad():",
    ),
    Example(
        name="switched-off-after-validation",
        code="""\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def validate():
    torch.set_grad_enabled(False)
    return (model(x) - y).square().mean().item()


for epoch in range(2):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    validate()
""",
        fails="does not require grad and does not have a grad_fn",
        line="torch.set_grad_enabled(False)",
    ),
)

HEALTHY = (
    Example(
        name="frozen-extractor-and-a-head-outside",
        code="""\
import torch
import torch.nn.functional as F

torch.manual_seed(0)
backbone, head = torch.nn.Linear(5, 8), torch.nn.Linear(8, 3)


@torch.no_grad()
def features(x):
    return backbone(x).relu()


loss = F.cross_entropy(head(features(torch.randn(8, 5))), torch.randint(3, (8,)))
loss.backward()
print(head.weight.grad is not None, backbone.weight.grad is None)
""",
    ),
    Example(
        name="validation-restores-the-mode",
        code="""\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def validate():
    with torch.set_grad_enabled(False):
        return (model(x) - y).square().mean().item()


for epoch in range(2):
    model.zero_grad()
    (model(x) - y).square().mean().backward()
    print(round(validate(), 4))
""",
    ),
)


def recognise(evidence: Evidence) -> Finding | None:
    """The first operation that had parameters and no recording, and where recording was switched off."""
    cut = find_cut(evidence, "no-grad")
    if cut is not None and in_checkpoint(cut.stack):
        return None  # a reentrant checkpoint runs without recording on purpose
    if cut is None or not without_graph(evidence):
        hint = (
            "the forward ran under `torch.no_grad()` or `torch.inference_mode()`, perhaps by a decorator or a caller."
        )
        return unseen(evidence, 0.28, TITLE, hint)
    strength, confidence = weigh(evidence, cut)
    switches = _switches(evidence, cut)
    marks = tuple(span("cause", f, "gradient recording is switched off here", evidence) for f in switches[:1])
    kind = cut.switch_kind or "no_grad"
    off = f", switched off at {where(switches[0])}" if switches else ""
    return Finding(
        strength,
        confidence,
        TITLE,
        f"`{cut.op}` at {same_line(cut)} ran while gradient recording was off ({kind}{off}). Its result "
        "has no "
        "graph although the parameters require gradients, and neither has the loss that is computed from it.",
        distinct((*marks, *story(evidence, cut, "computed here without being recorded"))),
        facts_of(cut),
        _remedies(switches),
    )


def _switches(evidence: Evidence, cut: Cut) -> list[Frame]:
    """The block or decorator around a frame of the cut, innermost first; else what the run or the source shows."""
    lexical = [s for f in reversed(cut.stack) if f.user for s in names.switches_around(evidence, f)]
    if lexical:
        return lexical
    observed = innermost(cut.switch)
    if observed:
        return [observed]
    statements = [f for f in names.calls_named(evidence, "set_grad_enabled") if "(False)" in code_at(evidence, f)]
    return statements[:1]  # a function call that has returned long ago leaves no other trace than its source


def _remedies(switches: list[Frame]) -> tuple[Remedy, ...]:
    return remedy_at(
        switches[0] if switches else None,
        "remove_switch",
        "Record this part: take the switch away here",
        "unsafe",
        "The parameters used in this part then receive gradient, and its activations are kept until backward.",
    )


CAUSE = Cause(
    code="GD303",
    slug="cut-by-no-grad",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("no-graph", "legacy"),
    sick=SICK,
    healthy=HEALTHY,
)
