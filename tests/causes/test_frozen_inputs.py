"""A backward that is told whom it is for leaves out what the optimizer holds and does not train."""

from __future__ import annotations

from pathlib import Path

from seen import observe

GAN = """\
import torch
from torch import nn
torch.manual_seed(0)
known = nn.Linear(3, 3).requires_grad_(False)
maker = nn.Sequential(nn.Linear(2, 3), known, nn.Linear(3, 3))
judge = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
for_maker = torch.optim.SGD(maker.parameters(), 0.1)
for_judge = torch.optim.SGD(judge.parameters(), 0.1)


def update(noise, real):
    fake = maker(noise)
    score = judge(fake)
    fooled = -score.mean()
    caught = judge(fake.detach()).mean() - judge(real).mean()
    for_judge.zero_grad()
    for_maker.zero_grad()
    caught.backward()
    for_judge.step()
    fooled.backward()
    for_maker.step()


for _ in range(3):
    update(torch.randn(4, 2), torch.randn(4, 3))
"""


def test_frozen_parameters_are_no_inputs(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", GAN)
    assert seen.slugs[0] == "optimizer-step-before-backward"
    late = [files["train.py"] for kind, files in seen.patches() if kind == "steps_last"]
    assert late and 'for p in g["params"] if p.requires_grad]' in late[0]
    assert observe(tmp_path / "mended", late[0]).mended


def test_where_all_of_it_is_trained_nothing_is_asked(tmp_path: Path) -> None:
    seen = observe(tmp_path, GAN.replace(".requires_grad_(False)", ""))
    late = [files["train.py"] for kind, files in seen.patches() if kind == "steps_last"]
    assert late and 'for p in g["params"]]' in late[0]
