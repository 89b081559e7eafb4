"""A part of PyTorch that traces what the program computes leaves the second run's looks alone."""

from __future__ import annotations

from pathlib import Path

import told_in_forks

SCAN = """\
import torch
from torch._higher_order_ops.scan import scan

torch.manual_seed(0)
decay = torch.nn.Parameter(torch.tensor([0.8]))
optimizer = torch.optim.SGD([decay], lr=0.1)


def fade(level, value):
    level = torch.sigmoid(decay) * level + value
    return level, level.tanh()


for _ in range(4):
    _, levels = scan(fade, torch.zeros(3), torch.randn(5, 3), dim=0)
    loss = levels.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_scan_is_traced_as_without_the_look(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCAN)
    told = told_in_forks.run(tmp_path, mode="probe:cuts", rerun=False)
    assert told.report.run.exit_status == 0, told.stderr
