"""A connection that a loss learns through is not cut: no remedy makes a constant of all that the loss trains."""

from __future__ import annotations

from seen import observe

JOINT = """\
import torch
from torch import nn

torch.manual_seed(0)
actors = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2)]
critics = [nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)) for _ in range(2)]
of_actors = [torch.optim.Adam(a.parameters(), lr=1e-2) for a in actors]
of_critics = [torch.optim.Adam(c.parameters(), lr=1e-2) for c in critics]
for step in range(3):
    x = torch.randn(5, 3)
    joint = torch.cat([actor(x) for actor in actors], dim=1)
    for of_actor, critic, of_critic in zip(of_actors, critics, of_critics):
        value = (critic(joint.detach()) - 1).square().mean()
        of_critic.zero_grad()
        value.backward()
        of_critic.step()
        loss = -critic(joint).mean()
        of_actor.zero_grad()
        loss.backward(retain_graph=True)
        of_actor.step()
"""


def test_what_the_loss_trains_is_not_detached_with_what_was_stepped(tmp_path):
    seen = observe(tmp_path, JOINT)
    assert seen.found and "modified by an inplace operation" in seen.result.stderr
    remedies = [r for f in seen.found for r in f.finding.remedies]
    told = [r.title for r in remedies]
    assert not any(title.startswith(("detach `joint`", "detach the value where it is computed")) for title in told), (
        told
    )
    # The joint action again behind the step, or clones of the weights: each loss gets the gradient that it asks for.
    assert any("on clones of the parameters" in title for title in told), told
    assert seen.slugs == ["optimizer-step-before-backward"]


SPEEDS = """\
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
trunk, near, far = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*trunk.parameters(), *near.parameters(), *far.parameters()], lr=1e-2)


class Speeds:
    def __init__(self):
        self.past = {"near": deque(maxlen=2), "far": deque(maxlen=2)}

    def weights(self):
        if any(len(kept) < 2 for kept in self.past.values()):
            return torch.ones(2)
        return torch.stack([kept[1] / kept[0] for kept in self.past.values()]).softmax(0)


speeds = Speeds()


def forward(state):
    h = trunk(state["x"]).tanh()
    state["losses"] = {"near": (near(h) - 1).square().mean(), "far": (far(h) + 1).square().mean()}


def update(state):
    total = sum(w * loss for w, loss in zip(speeds.weights(), state["losses"].values()))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()


def remember(state):
    for name, loss in state["losses"].items():
        speeds.past[name].append(loss)


def run(handlers):
    for _ in range(4):
        state = {"x": torch.randn(5, 3)}
        for handler in handlers:
            handler(state)


run([forward, update, remember])
"""


def titles(seen):
    return [r.title for f in seen.found for r in f.finding.remedies]


def test_what_is_a_term_of_this_loss_too_is_cut_where_it_is_stored_alone(tmp_path):
    seen = observe(tmp_path, SPEEDS)
    assert titles(seen)[0].startswith("store it detached")
    assert not any("is computed" in t or "are computed" in t or "no_grad" in t for t in titles(seen)), titles(seen)


BASELINE = """\
import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(3, 2), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-2)


def values(x):
    return critic(x).squeeze(-1)


def update(x, before):
    chosen = policy(x).log_softmax(-1)[:, 0]
    loss = (values(x) - before - 1).square().mean() - chosen.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


x = torch.randn(5, 3)
before = values(x)
for _ in range(3):
    update(x, before)
"""


def test_what_this_loss_computes_again_elsewhere_may_be_cut_where_it_was_made(tmp_path):
    told = titles(observe(tmp_path, BASELINE))
    assert any(t.startswith("detach the value where it is") for t in told), told
    assert not any("@torch.no_grad() on values" in t for t in told), told
