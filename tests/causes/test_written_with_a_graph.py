"""A parameter that is written in place with what was computed from parameters: two ways, and an open question."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

CODE = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scale = model[0].weight.norm()
model[0].weight[0] -= scale * torch.ones(3)
model(torch.rand(2, 3)).sum().backward()
opt.step()
"""


@pytest.mark.parametrize(("scale", "left"), [("model[0].weight.norm()", True), ("0.5", False)])
def test_the_write_may_be_left_unrecorded_and_what_learns_through_it_stays_open(
    tmp_path: Path, scale: str, left: bool
) -> None:
    found = observe(tmp_path, CODE.replace("model[0].weight.norm()", scale))
    assert found.slugs[0] == "inplace-on-leaf"
    remedies = found.found[0].finding.remedies
    (unrecorded,) = [r for r in remedies if r.kind == "under_no_grad_update"]
    assert bool(unrecorded.open) is left
    assert [r.kind for r in remedies][0 if left else 1] == "out_of_place"
