"""What was measured to be right once is not measured again, as long as the program is the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import told_in_forks

PROGRAM = """\
import torch
from torch import nn


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(12):
    loss = Square.apply(net(torch.randn(8, 4))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_second_run_for_a_backward_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "train.py"

    def second_runs(source: str, number: int) -> int:
        script.write_text(source)
        told = told_in_forks.run(tmp_path, number)
        assert bool(told.report.diagnoses) == ("return x * grad" in source)
        return len(told.said)

    assert second_runs(PROGRAM, 1) == 1
    assert told_in_forks.run(tmp_path, 2).said == []
    wrong = PROGRAM.replace("return 2 * x * grad", "return x * grad")
    assert second_runs(wrong, 3) == second_runs(wrong, 4) == 1


def test_a_run_that_is_too_long_for_a_second_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.setattr("graphdoc.probe.LONGEST_LIMIT", 0.0)
    told = told_in_forks.run(tmp_path, 1)
    assert not told.report.diagnoses and not told.said
    (note,) = told.report.notes
    assert note.startswith("no second run has looked closer: the first took ")
