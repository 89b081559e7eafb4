"""GD202: retain_graph=True had silenced a backward-twice error, and now the versions differ."""

from __future__ import annotations

from graphdoc.causes import links
from graphdoc.causes.base import Cause, Example, Finding, Page
from graphdoc.causes.oldgraph import calls_of, cause_places, constant_places, flow, name_of
from graphdoc.causes.ordering import covered_remedies, flagged_calls, uses
from graphdoc.causes.reuse import Reuse
from graphdoc.causes.scenes import scene
from graphdoc.causes.spans import distinct, span
from graphdoc.causes.telling import called, facts_of, failed_spans, reason, saved_spans, trust, write_spans
from graphdoc.causes.text import VERSION, from_message, mismatch
from graphdoc.causes.versions import Mutation, analyse
from graphdoc.causes.wording import folded
from graphdoc.evidence import Evidence
from graphdoc.model import Span

TITLE = "retain_graph=True keeps an old graph alive, and the weights it needs have been stepped since"

PAGE = Page(
    what_happened="""\
The program once failed with *Trying to backward through the graph a second time*, whose text proposes
`retain_graph=True`. With the flag that message is gone and another one comes: *modified by an inplace operation*. The
fault is the same as before. A tensor of an earlier iteration or of another objective still connects this loss to an old
graph. The flag has kept that graph walkable, so backward walks it once more, and finds that the optimizer has changed
the weights in the meantime.
""",
    why="""\
`retain_graph=True` tells backward not to free the saved tensors. It does not copy them. What a layer saves of its
weight is a reference to the parameter itself, with the version that it had; `optimizer.step()` writes into the same
memory and raises the version. Walking the old graph again would multiply the gradients of the old activations with the
new weights: a derivative of nothing. Hence the check.

Where no parameter was saved (or a fused optimizer wrote without counting) the flag does silence everything, and the
program runs on with a graph that grows by one iteration in every iteration: slower each time, more memory each time,
and old losses counted again.
""",
    example="""\
hidden = torch.zeros(1, 16)
for x, y in batches:
    hidden = cell(x, hidden)
    loss = F.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward(retain_graph=True)   # silences the first error ...
    optimizer.step()                   # ... and causes the second
""",
    use_instead="""\
hidden = torch.zeros(1, 16)
for x, y in batches:
    hidden = cell(x, hidden)
    loss = F.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    hidden = hidden.detach()           # the cause of both
""",
    fix_safety="""\
Unsafe, as is the fix of the fault below: detach what is carried, stored or used as a constant, and *then* take the flag
out. Removing `retain_graph=True` alone brings the first message back, and that is a good way to find the place: it
names the same old graph.

Leave the flag where it has a reason of its own: two gradients of one graph with no step in between (a gradient penalty,
the norm of one term, the first of two losses). There the graph is walked again before any weight changes.
""",
    not_this="""\
- No earlier backward has walked the stale part; it was computed before the step and is differentiated for the first
  time: `optimizer-step-before-backward`.
- The faults below, without the flag: `carried-state`, `stored-with-graph`, `undetached-target`, `graph-built-once`,
  `accumulated-loss`.
- The stale tensor is an activation or a buffer, not a parameter: `inplace-on-saved-activation`,
  `buffer-updated-in-place`.
""",
    references=(links.BACKWARD, links.SAVED_TENSORS, links.IN_PLACE),
)

SICK = (
    Example(
        name="recurrent-state-with-the-flag",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
hidden = torch.zeros(1, 8)
for _ in range(3):
    hidden = cell(torch.randn(1, 3), hidden)
    loss = head(hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
""",
        fails="modified by an inplace operation",
        line="hidden = cell(torch.randn(1, 3), hidden)",
    ),
    Example(
        name="advantage-with-the-flag",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)


def net(out):
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, out))


class ActorCritic:
    def __init__(self):
        self.actor, self.critic = net(2), net(1)
        self.actor_opt = torch.optim.SGD(self.actor.parameters(), lr=0.01)
        self.critic_opt = torch.optim.SGD(self.critic.parameters(), lr=0.01)

    def learn(self, obs, returns):
        dist = torch.distributions.Categorical(logits=self.actor(obs))
        advantage = returns - self.critic(obs).squeeze(-1)
        self.critic_opt.zero_grad()
        advantage.pow(2).mean().backward(retain_graph=True)
        self.critic_opt.step()
        self.actor_opt.zero_grad()
        (-dist.log_prob(dist.sample()) * advantage).mean().backward()
        self.actor_opt.step()


ActorCritic().learn(torch.randn(6, 4), torch.randn(6))
""",
        fails="modified by an inplace operation",
        line="(-dist.log_prob(dist.sample()) * advantage).mean().backward()",
    ),
)

HEALTHY = (
    Example(
        name="state-detached-no-flag",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
hidden = torch.zeros(1, 8)
for _ in range(3):
    hidden = cell(torch.randn(1, 3), hidden.detach())
    loss = head(hidden).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    Example(
        name="flag-between-two-losses-and-no-step",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8))
heads = {name: nn.Linear(8, 1) for name in ("reward", "done")}
params = [p for m in (encoder, *heads.values()) for p in m.parameters()]
optimizer = torch.optim.AdamW(params)
for _ in range(3):
    z = encoder(torch.randn(5, 4))
    optimizer.zero_grad()
    heads["reward"](z).pow(2).mean().backward(retain_graph=True)
    heads["done"](z).sigmoid().mean().backward()
    optimizer.step()
""",
    ),
    Example(
        name="adaptive-weight-from-two-gradients",
        code="""\
import torch
from torch import nn

torch.manual_seed(0)
decoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(decoder.parameters())
for _ in range(2):
    out = decoder(torch.randn(6, 2))
    first, second = out.pow(2).mean(), out.abs().mean()
    last = decoder[2].weight
    a = torch.autograd.grad(first, last, retain_graph=True)[0].norm()
    b = torch.autograd.grad(second, last, retain_graph=True)[0].norm()
    optimizer.zero_grad()
    (first + (a / (b + 1e-6)).detach() * second).backward()
    optimizer.step()
""",
    ),
)


def recognise(evidence: Evidence) -> Finding | None:
    """The graph: a stale parameter in a part that an earlier call walked and kept, and that does not belong here."""
    found = analyse(evidence)
    if found is None:
        return _from_text(evidence)
    if found.cause != "retain-graph-cover-up":
        return None
    strength, confidence = trust(found, 0.97)
    reuse = found.reuse if found.reuse is not None and found.reuse.carries else None
    names = list(dict.fromkeys(name_of(c) for c in reuse.carries if c.tensor.name)) if reuse is not None else []
    what = f"{' and '.join(names[:2])} connect{'s' if len(names) == 1 else ''}" if names else "A tensor connects"
    behind = reuse.behind if reuse is not None else found.behind
    return Finding(
        strength,
        confidence,
        f"{what} this loss to a graph that `retain_graph=True` kept and a step has made stale" if names else TITLE,
        f"{what} this loss to a graph that an earlier backward has walked. Without retain_graph=True that call would "
        f"have freed it, and the message would be *second time*. Kept, the graph needs {called(found.stale)} as it was "
        "before the step. The fault is the connection: part it and drop the flag.",
        distinct(
            (
                *_causes(evidence, found, reuse),
                *write_spans(found),
                *saved_spans(evidence, found),
                *(flow(evidence, reuse) if reuse is not None else ()),
                *(calls_of(evidence, reuse) if reuse is not None else failed_spans(evidence, found)),
            )
        ),
        (*facts_of(evidence, found), f"behind the old part: {folded(behind)}"),
        covered_remedies(evidence, found),
        covers=reuse.kind if reuse is not None else "",
        because=reason(evidence, found),
    )


def _causes(evidence: Evidence, found: Mutation, reuse: Reuse | None) -> list[Span]:
    """The places of the fault below, then a call with the flag."""
    label = "this connects the loss to the old graph"
    places: tuple[Span, ...]
    if reuse is None:
        at = scene(evidence, found)
        frames = (*uses(evidence, found, at), *at.lines) if at is not None else ()
        places = distinct(span("cause", f, label, evidence) for f in frames)
    elif reuse.kind in ("undetached-target", "shared-subgraph-losses"):
        carries = evidence.siblings if reuse.detach_in_freeing and evidence.siblings else reuse.carries
        places = constant_places(evidence, carries, label)
    else:
        places = cause_places(evidence, reuse, label)
    flags = [
        span("cause", f, "retain_graph=True keeps the old graph", evidence) for f in flagged_calls(evidence, found)
    ]
    lines = list({(s.file, s.line): s for s in reversed(places)}.values())[::-1]
    return [*lines[: 2 if flags else 3], *flags[:1]]


def _from_text(evidence: Evidence) -> Finding | None:
    """Text alone: stronger where the program's own lines, if they are known, contain the flag."""
    found = mismatch(evidence)
    if found is None or not found.may_be("parameter") or found.integer or not (found.leaf or found.transposed_weight):
        return None
    flagged = any("retain_graph=True" in text for text in evidence.sources.values())
    return from_message(
        evidence,
        VERSION,
        strength=0.46 if flagged else 0.34,
        title=TITLE,
        explanation=(
            "If the program calls backward with retain_graph=True to avoid an earlier error, this one has the same "
            "fault: an old graph is walked again, after the optimizer has changed the weights it needs. Detach what "
            "is carried over and remove the flag."
        ),
        label="this backward walks a graph whose weights have been stepped",
    )


CAUSE = Cause(
    code="GD202",
    slug="retain-graph-cover-up",
    title=TITLE,
    page=PAGE,
    recognise=recognise,
    families=("graph-reuse",),
    sick=SICK,
    healthy=HEALTHY,
)
