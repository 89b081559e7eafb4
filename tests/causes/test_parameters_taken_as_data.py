"""Parameters that a forward pass takes as data, `self.weight.data`: all that are to be trained are given back."""

from __future__ import annotations

from pathlib import Path

from seen import observe

CODE = """
import torch
from torch import nn
torch.manual_seed(0)

class First(nn.Linear):
    def forward(self, x):
        return torch.tanh(x @ self.weight.data.T)

class Second(nn.Linear):
    def forward(self, x):
        return x @ self.weight.data.T

net = nn.Sequential(First(3, 4), Second(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 5, 3):
    opt.zero_grad()
    net(x).pow(2).mean().backward()
    opt.step()
"""


def test_each_parameter_that_is_taken_as_data_is_given_back(tmp_path: Path) -> None:
    found = observe(tmp_path, CODE)
    assert found.slugs[0] == "cut-by-detach"
    (remedy,) = found.found[0].finding.remedies
    assert [e["args"]["place"]["line"] for e in remedy.args["edits"]] == [12, 8]
