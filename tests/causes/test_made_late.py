"""Layers that a forward makes behind the optimizer: the run tells where, however the source builds and keeps them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

TEXT = """\
import torch
from torch import nn


def block(n):
    return nn.Sequential(nn.Linear(n, 4), nn.Tanh())


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict()
        self.part = None

    def forward(self, x):
        LINE
        return (self.part or self.parts["a"])(x).sum(1, keepdim=True)

    def _build(self, n):
        self.part = block(n)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.late, self.tip = nn.Linear(6, 8), Late(), nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x).tanh()
        return self.tip(h) + self.late(h)


torch.manual_seed(0)
net = Net()
AHEAD
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 6)
    loss = nn.functional.mse_loss(net(x), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WAYS = {
    "self.part = self.part or block(x.shape[1])": "self.part = self.part or block(x.shape[1])",
    "if self.part is None: self._build(x.shape[1])": "self.part = block(n)",
    'if not self.parts: self.parts["a"] = block(x.shape[1])': 'if not self.parts: self.parts["a"] = block(x.shape[1])',
}


@pytest.mark.parametrize("line", WAYS)
def test_what_a_forward_makes_is_told_where_it_is_kept(tmp_path: Path, line: str) -> None:
    seen = observe(tmp_path, TEXT.replace("LINE", line).replace("AHEAD", ""))
    assert seen.slugs == ["parameters-never-reached"]
    assert seen.lines("cause") == [WAYS[line]]
    assert "a forward makes them after `optimizer` was made" in seen.found[0].finding.title


def test_a_forward_before_the_optimizer_makes_it_in_time(tmp_path: Path) -> None:
    text = TEXT.replace("LINE", next(iter(WAYS))).replace("AHEAD", "net(torch.zeros(1, 6))")
    assert observe(tmp_path, text).slugs == []


def test_a_network_beside_that_no_forward_makes_is_left_alone(tmp_path: Path) -> None:
    text = """\
import torch
from torch import nn


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.features = nn.Sequential(nn.Linear(4, 8), nn.ReLU())  # random, and to stay so

    def forward(self, x):
        return (self.features(self.net(x)) - self.features(x.flip(1))).pow(2).mean()


torch.manual_seed(0)
task = Task()
for _ in range(14):
    task.optimizer.zero_grad()
    task(torch.randn(8, 4)).backward()
    task.optimizer.step()
"""
    assert observe(tmp_path, text).slugs == []
