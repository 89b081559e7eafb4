"""What is told of a program does not hang on the names by which it imports its libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "causes"))

from seen import observe

WITH_ITSELF = """\
import torch as th
import torch.nn.functional as fn

th.manual_seed(0)
net = th.nn.Linear(4, 2)
optimizer = th.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    pred = net(th.randn(8, 4))
    loss = fn.mse_loss(pred, pred.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OF_NUMBERS = """\
import torch as th

w = th.ones(2, requires_grad=True)
total = th.tensor([w.sum(), w.prod()]).sum()
total.backward()
"""
MAPPED = """\
import torch as th


def rows(x):
    out = th.zeros(3)
    for i in range(3):
        out[i] = x[i] * 2
    return out


print(th.vmap(rows)(th.randn(5, 3)))
"""
WHOLE = """\
import torch as th

x = th.tensor([1, 2], requires_grad=True)
"""


def test_a_function_of_torch_is_no_operand(tmp_path: Path) -> None:
    seen = observe(tmp_path, WITH_ITSELF)
    assert seen.slugs == ["straight-through-cancels"]
    assert "`fn.mse_loss(pred, pred.detach())` compares a value with itself" in seen.said


@pytest.mark.parametrize(
    ("program", "changed"),
    [
        (OF_NUMBERS, "total = th.stack([w.sum(), w.prod()]).sum()"),
        (MAPPED, "    out = x.new_zeros(3)"),
        (WHOLE, "x = th.tensor([1, 2], requires_grad=True, dtype=th.float32)"),
    ],
)
def test_a_patch_speaks_as_the_file_does(tmp_path: Path, program: str, changed: str) -> None:
    _, texts = observe(tmp_path, program).patches()[0]
    assert changed in texts["train.py"].splitlines()
