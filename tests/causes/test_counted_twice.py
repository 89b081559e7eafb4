"""A graph that is kept for a second loss: open where the first one is made of that very loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

CODE = """
import torch
from torch import nn
torch.manual_seed(0)
net, side = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 1)
opt = torch.optim.SGD([*net.parameters(), *side.parameters()], lr=0.1)

def parts(x):
    h = net(x)
    return side(h).pow(2).mean(), h.pow(2).mean()

def walk(loss):
    loss.backward()

def update(x):
    one, other = parts(x)
    opt.zero_grad()
    total = TOTAL
    walk(total)
    other.backward()
    opt.step()

for x in torch.randn(3, 5, 3):
    update(x)
"""


@pytest.mark.parametrize(("total", "left"), [("one + other", True), ("one", False)])
def test_what_is_a_part_of_the_first_loss_would_count_twice(tmp_path: Path, total: str, left: bool) -> None:
    finding = observe(tmp_path, CODE.replace("TOTAL", total)).found[0].finding
    kept = [r for r in finding.remedies if r.title.startswith("keep the graph for the second loss")]
    assert kept and bool(kept[0].open) is left
