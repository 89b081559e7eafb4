"""A loss that is a number which the program has written, and what else may stand in a loss's place."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)


def boxes(out, wanted, positive):
    if not positive.any():
        return {constant}
    return (out - wanted)[positive].square().mean()


for n in (2, 1, 0, 1):
    x, wanted = torch.randn(4, 3), torch.randn(4, 2)
    loss = boxes(net(x), wanted, torch.arange(4) < n)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("constant", ["torch.tensor(0.0)", "torch.tensor(0.0, device=out.device)"])
def test_a_written_number_is_the_loss_whatever_else_was_printed(tmp_path: Path, constant: str) -> None:
    seen = observe(tmp_path / "sick", HEAD.format(constant=constant))
    assert seen.slugs[0] == "constant-loss" and seen.found[0].finding.confidence == "certain"
    assert seen.lines("cause") == [f"return {constant}"]
    kind, files = seen.patches()[0]
    assert kind == "rewrite" and "return out.sum() * 0.0" in files["train.py"]
    assert observe(tmp_path / "mended", files["train.py"]).mended


def test_a_number_that_was_computed_is_not_surely_a_constant(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD.format(constant="torch.tensor(float(out.norm()) * 0)"))
    assert seen.slugs[0] == "cut-by-conversion", seen.slugs


PUT_IN_PLACE = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
total = torch.tensor([0.0])
for _ in range(3):
    out = net(torch.randn(4, 3))
    shown = torch.cat([out.detach(), out.detach()])
    losses = (out * 1e30).exp().sum()
    if not torch.isfinite(losses):
        losses = torch.tensor(1e9)
    loss = (total + losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_detach_that_no_number_was_made_of_is_not_blamed_for_a_constant(tmp_path: Path) -> None:
    seen = observe(tmp_path, PUT_IN_PLACE)
    assert seen.slugs[0] == "constant-loss", seen.slugs
    assert "losses = torch.tensor(1e9)" in seen.lines("cause")
