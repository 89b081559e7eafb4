"""An entry of a list that is written in place is called by its own name: the list is no tensor."""

from __future__ import annotations

from pathlib import Path

from seen import observe

LATERALS = """\
import torch
from torch import nn
layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])



def neck(x):
    laterals = [layer(x).relu() for layer in layers]
    for i in range(2, 0, -1):
        laterals[i - 1] += laterals[i] * 0.5
    return sum(x.square().sum() for x in laterals)


neck(torch.ones(2, 3)).backward()
"""


def test_the_entry_is_what_is_overwritten(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", LATERALS)
    assert seen.slugs[0] == "inplace-on-saved-activation"
    assert "`laterals[i - 1]` is changed in place" in seen.said and "saves `laterals` for" not in seen.said
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


def test_what_a_norm_gives_is_written_by_no_name(tmp_path: Path) -> None:
    code = """\
import torch
w = torch.ones(4, 3, requires_grad=True)
alpha = w.norm(1, 1, keepdim=True).div_(3)
(w.sign() * alpha * w).sum().backward()
"""
    seen = observe(tmp_path / "sick", code)
    new = seen.patches()[0][1]["train.py"]
    assert "alpha = w.norm(1, 1, keepdim=True).div(3)" in new
    assert observe(tmp_path / "mended", new).mended
