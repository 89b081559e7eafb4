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
