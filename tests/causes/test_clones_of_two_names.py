"""A forward on clones leaves the module as it was, also where a part of it stands under two names."""

from __future__ import annotations

import pytest
from forked import run_forked
from seen import observe

from graphdoc.fixes.kinds import build
from graphdoc.source.module import Source

PROGRAM = """\
import torch
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}
        self.last = nn.Linear(4, 4)
        {tie}

    def forward(self, x):
        return self.last(torch.tanh(self.first(x))).sum(-1)


class Model:
    def __init__(self):
        self.critic, self.actor = Critic(), nn.Linear(3, 4)
        self.of_critic = torch.optim.SGD(self.critic.parameters(), lr=0.1)
        self.of_actor = torch.optim.SGD(self.actor.parameters(), lr=0.1)

    def process(self, x):
        self.of_critic.zero_grad()
        self.of_actor.zero_grad()
        action = self.actor(x)
        critic_loss = (self.critic(action.detach()) - 1).square().mean()
        score = self.critic(action)
        return critic_loss, -score.mean()

    def backward(self, critic_loss, actor_loss):
        critic_loss.backward()
        self.of_critic.step()
        actor_loss.backward()
        self.of_actor.step()


torch.manual_seed(0)
model = Model()
for _ in range(3):
    model.backward(*model.process(torch.randn(6, 3)))
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("layers", "tie", "untied"),
    [
        ("self.first = self.features = nn.Linear(4, 4)", "pass", True),
        ("self.first = nn.Linear(4, 4)", "self.all = nn.ModuleList([self.first, self.last])", True),
        ("self.first = nn.Linear(4, 4)", "pass", False),
        ("self.first = nn.Linear(4, 4)", "self.last.weight = self.first.weight", False),  # both of them need the clone
    ],
)
def test_the_parameters_stay_those_of_the_optimizer(tmp_path, layers, tie, untied):
    code = PROGRAM.format(layers=layers, tie=tie)
    seen = observe(tmp_path, code)
    assert seen.slugs == ["optimizer-step-before-backward"], seen.result.stderr
    remedy = next(r for r in seen.found[0].finding.remedies if r.kind == "clone_parameters")
    assert remedy.args.get("untied", False) is untied
    assert seen.evidence is not None and remedy.kind
    sources = {f: Source(f, t) for f, t in seen.evidence.sources.items()}
    (patched,) = build(remedy.kind, sources, remedy.args).values()
    # In a process of its own: modules that are left here would be found by the next one's look at all objects.
    (tmp_path / "patched.py").write_text(f"{patched}\nassert all(p.is_leaf for p in model.critic.parameters())\n")
    assert run_forked(tmp_path / "patched.py").status == 0
