"""Anomaly mode stops at a nan that the forward pass has made: what the second run has found of it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

CODE = """\
import torch
from torch import nn
torch.manual_seed(0)
{anomaly}
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for rows in (4, 4, 1):
    out = net(torch.randn(rows, 3))
    loss = ((out - out.mean()) / out.std(0)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("anomaly", ["torch.autograd.set_detect_anomaly(True)"])
def test_the_forwards_own_nan_is_told(anomaly: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, CODE.format(anomaly=anomaly))
    assert seen.slugs[0] == "nan-std-of-one" and seen.found[0].finding.confidence == "certain"
