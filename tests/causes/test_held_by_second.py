"""Two losses of a pass: what one optimizer holds with its own loss's part may be data to the loss of another."""

from __future__ import annotations

from pathlib import Path

from seen import observe

CODE = """\
import torch
from torch import nn
torch.manual_seed(0)
agent, model, head = nn.Linear(4, 1), nn.Linear(4, 3), nn.Linear(3, 2)
{optimizers}
for o in (mine, *others):
    o.zero_grad()
for _ in range(3):
    x, wanted = torch.randn(8, 4), torch.randn(8, 2)
    known = model(x).tanh()
    surprise = known.square().sum(1)
    first = (agent(x).squeeze(1) - surprise).square().mean()
    second = (head(known) - wanted).square().mean()
    first.backward()
    {steps}
    second.backward()
    for o in others:
        o.step()
        o.zero_grad()
"""
ONE = """\
mine = torch.optim.SGD(agent.parameters(), 0.1)
others = [torch.optim.SGD([*model.parameters(), *head.parameters()], 0.1)]"""
APART = """\
mine = torch.optim.SGD(agent.parameters(), 0.1)
others = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, head)]"""
STEP = "mine.step()\n    mine.zero_grad()"


def test_what_is_in_the_other_losses_optimizer_may_be_data(tmp_path: Path) -> None:
    seen = observe(tmp_path, CODE.format(optimizers=ONE, steps=STEP))
    assert seen.slugs[0] == "shared-subgraph-losses" and seen.found[0].finding.confidence == "likely"
    assert "Where both are to train" in seen.said and "Both are meant" not in seen.said
    cut = seen.found[0].finding.remedies[-1]
    assert "where the earlier loss uses it" in cut.title and "learn from both losses, no run tells" in cut.open


def test_what_has_an_optimizer_of_its_own_learns_from_both(tmp_path: Path) -> None:
    seen = observe(tmp_path, CODE.format(optimizers=APART, steps=STEP))
    assert seen.slugs[0] == "shared-subgraph-losses" and seen.found[0].finding.confidence == "certain"
    assert "Both are meant to train" in seen.said
