"""A function that writes into what it was given: whether the caller sees the write decides what it may become."""

from __future__ import annotations

import json

import pytest
from commands import graphdoc

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
mix, first, last = nn.Linear(4, 4), nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*mix.parameters(), *first.parameters(), *last.parameters()], lr=0.1)


def turned(x):
    out = x
    out[:, :2] = mix(torch.sigmoid(x))[:, :2]
    return out


for _ in range(3):
    h = torch.tanh(first(torch.randn(5, 3)))
    g = {call}
    loss = last(g + {after}).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def tried(tmp_path, call, after):
    (tmp_path / "train.py").write_text(PROGRAM.format(call=call, after=after))
    assert graphdoc(tmp_path, "run", "train.py", forked=True).returncode == 1
    graphdoc(tmp_path, "fix", "--diff", "--unsafe", "--report", "json:report.json")
    return json.loads((tmp_path / "report.json").read_text())["diagnoses"][0]["fixes"]


@pytest.mark.slow
def test_a_write_that_nobody_else_sees_is_made_out_of_place(tmp_path):
    best, *_ = tried(tmp_path, "turned(h)", "1")
    assert best["verified"] is True, best["verification"]
    assert best["safety"] == "unsafe"  # what is written belongs to the caller, whoever else reads it


@pytest.mark.slow
def test_a_write_that_the_caller_sees_is_kept(tmp_path):
    best, other, *_ = tried(tmp_path, "turned(h)", "h")
    assert best["verified"] is True, best["verification"]
    assert "gradients equal the reference" in best["verification"]["summary"]
    assert "compute out of place" in other["title"]
    assert other["verified"] is None
    assert "off that of the program as it is written" in other["verification"]["summary"]
