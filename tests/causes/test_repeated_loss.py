"""One loss that is differentiated twice, with its weights written in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
"""
CLIMB = """
def climb():
    with torch.no_grad():
        for p in net.parameters():
            p.add_(p.grad)
"""
LOOP = """
for x in torch.randn(3, 5, 3):
    optimizer.zero_grad()
    second.zero_grad()
    if x.sum() > -1000:
        loss = (net(x) * other(x)).mean()
    loss.backward(retain_graph=True)
    WRITE
    net(x)
    loss.backward()
    STEP
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("write", ["climb()", "optimizer.step(); optimizer.zero_grad()"])
def test_no_clones_for_what_is_to_have_another_gradient(tmp_path: Path, write: str) -> None:
    found = observe(tmp_path, HEAD + CLIMB + LOOP.replace("WRITE", write).replace("STEP", "optimizer.step()"))
    finding = found.found[0].finding
    assert not [r for r in finding.remedies if "clones" in r.title]
    assert any(r.title.startswith("Compute the loss again after the write at train.py:") for r in finding.remedies)
    assert "clones" not in finding.explanation
    assert "compute it again" in finding.explanation


def test_a_second_optimizer_may_have_the_gradient_of_the_first_weights(tmp_path: Path) -> None:
    code = LOOP.replace("WRITE", "optimizer.step()").replace("STEP", "second.step()")
    found = observe(tmp_path, HEAD + CLIMB + code)
    assert [r for r in found.found[0].finding.remedies if "clones" in r.title or r.kind == "backward_once"]
