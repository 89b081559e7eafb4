"""What NumPy makes of a tensor and the loss is computed with: as a constant it would end what it is to train."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 1)
width = nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([*net.parameters(), width], 0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)


def deviation(of):
    {deviation}


def distance(out):
    return ((y - out) / deviation(width)).square() + width


for _ in range(3):
    out = net(x)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("deviation", "loss"),
    [("return np.exp(of)", "distance(out).mean()"), ("made = np.exp(of)\n    return made * 2", "distance(out).mean()")],
)
def test_what_a_function_returns_into_the_loss_is_computed_in_torch(tmp_path: Path, deviation: str, loss: str) -> None:
    seen = observe(tmp_path / "sick", HEAD.format(deviation=deviation, loss=loss))
    assert seen.slugs[0] == "numpy-on-grad-tensor"
    kind, files = seen.patches()[0]
    assert kind == "torch_instead_of_numpy" and "torch.exp(of)" in files["train.py"]
    assert "train.py" in seen.found[0].finding.remedies[1].open
    assert observe(tmp_path / "mended", files["train.py"]).mended


def test_a_number_that_is_a_term_of_the_loss_is_not_surely_a_constant(tmp_path: Path) -> None:
    code = HEAD.format(deviation="return float(np.sort(of.numpy()).mean())", loss="out.mean() + 2 * deviation(out)")
    remedies = observe(tmp_path, code).found[0].finding.remedies
    assert remedies[0].kind == "to_numpy" and remedies[0].safety == "unsafe"
    assert "the loss at train.py:23 is computed with it" in remedies[0].open


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "loss",
    [
        "out[deviation(out) > 0].mean()",
        "out.mean() + 0 * len(deviation(out))",
        "(print(deviation(out)), out.mean())[1]",
    ],
)
def test_what_only_chooses_or_is_printed_is_a_number(tmp_path: Path, loss: str) -> None:
    seen = observe(tmp_path, HEAD.format(deviation="return of.numpy().ravel()", loss=loss))
    remedies = seen.found[0].finding.remedies
    assert remedies[0].kind == "to_numpy" and remedies[0].safety == "safe" and not remedies[0].open
