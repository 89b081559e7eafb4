"""A divergence of a network from itself, in the forms in which it is written, and products that are zero otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

PROGRAM = """
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
states = torch.randn(32, 3)
for _ in range(4):
    first = net(states)
    second = net({second})
    slope = torch.autograd.grad({loss}, list(net.parameters()), create_graph=True)
    slope = torch.cat([s.flatten() for s in slope])
    torch.autograd.grad((slope * torch.ones_like(slope)).sum(), list(net.parameters()))
"""
SICK = {
    "mse": "nn.functional.mse_loss(first, second)",
    "normal": "kl_divergence(Normal(first, 1.0), Normal(second, 1.0)).mean()",
    "kl_div": "nn.functional.kl_div(second.log_softmax(-1), first.softmax(-1), reduction='batchmean')",
}
HEALTHY = {
    "held constant": ("states", "nn.functional.mse_loss(first.detach(), second)"),
    "of other data": ("states + 1", "nn.functional.mse_loss(first, second)"),
    "weighed by zero": ("states", "0.0 * (first * second).mean()"),
    "no distance": ("states", "(first * second).mean()"),
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("form", SICK)
def test_what_is_compared_with_itself_is_told_in_the_first_run(form: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, PROGRAM.format(second="states", loss=SICK[form]))
    assert seen.slugs == ["gradient-leaks-into-target"]
    assert seen.found[0].finding.title.startswith("`net(states)` is compared with itself")


@pytest.mark.breadth(1)
@pytest.mark.parametrize("form", HEALTHY)
def test_other_products_are_left_alone(form: str, tmp_path: Path) -> None:
    second, loss = HEALTHY[form]
    assert not observe(tmp_path, PROGRAM.format(second=second, loss=loss)).found
