"""What draws, by the names that a piece of code calls and what the program's own files make of them."""

from __future__ import annotations

import ast

import pytest

from graphdoc.source.effects import may_draw

PROGRAM = ast.parse("""
import torch
from torch import nn

torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
noisy = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3))

    def forward(self, x):
        return self.scale * x


class Sampler(nn.Module):
    def forward(self, x):
        return torch.distributions.Normal(x, 1.0).rsample()


once, sampler = Drawn(), Sampler()


def score(x):
    return noisy(x).mean()
""")


@pytest.mark.parametrize("code", ["noisy(x)", "y = score(x)", "self.sampler(x)", "z = d.rsample()", "F.dropout(x)"])
def test_code_that_draws_each_time(code: str) -> None:
    assert may_draw([PROGRAM], ast.parse(code))


@pytest.mark.parametrize("code", ["plain(x)", "y = once(x).mean()", "loss = a + b", "unknown(x)"])
def test_code_that_does_not(code: str) -> None:
    assert not may_draw([PROGRAM], ast.parse(code))
