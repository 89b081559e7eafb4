"""A function that writes into what it was given: the caller's tensor keeps its numbers in the patched program."""

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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "after", "differs"),
    [("turned(h)", "1", False), ("turned(h)", "h", True)],
    ids=["nobody-sees-the-write", "the-caller-sees-it"],
)
def test_other_numbers_of_the_caller_are_told(tmp_path, call, after, differs):
    (tmp_path / "train.py").write_text(PROGRAM.format(call=call, after=after))
    assert graphdoc(tmp_path, "run", "train.py").returncode == 1
    graphdoc(tmp_path, "fix", "--diff", "--unsafe", "--report", "json:report.json")
    best = json.loads((tmp_path / "report.json").read_text())["diagnoses"][0]["fixes"][0]
    assert best["verified"] is True, best["verification"]
    assert best["safety"] == "unsafe"  # what is written belongs to the caller, whoever else reads it
    assert ("differs from the program as it is written" in best["verification"]["summary"]) == differs
