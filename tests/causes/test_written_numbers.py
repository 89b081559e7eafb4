"""Numbers by the way that they are written or made: what a parameter is to be, and what has its weights already."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe


def test_numbers_that_are_only_written_whole_become_a_parameter_that_learns(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn
scale = nn.Parameter(torch.tensor([10] * 2))
(scale * 2.0).sum().backward()
"""
    seen = observe(tmp_path / "sick", code)
    kinds = [r.args["name"] for r in seen.found[0].finding.remedies]
    assert kinds == ["dtype", "requires_grad"]
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


@pytest.mark.breadth(1)
@pytest.mark.parametrize("made", ["torch.tensor([1, 2], dtype=torch.long)", "torch.arange(3)", "torch.tensor([True])"])
def test_whole_numbers_that_are_asked_for_stay_whole(made: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, f"import torch\nfrom torch import nn\ntable = nn.Parameter({made})\n")
    assert [r.args["name"] for r in seen.found[0].finding.remedies] == ["requires_grad"]


def test_what_a_quotient_has_made_may_have_its_weights(tmp_path: Path) -> None:
    code = """\
import torch
w = torch.ones(4, 3, requires_grad=True)
mask = torch.ones(4, 3)


def weighed(w):
    return (w * mask).sum(1){}


loss = weighed(w)
loss.backward()
"""
    open_ = [
        observe(tmp_path / n, code.format(by)).found[0].finding.remedies[0].open
        for n, by in (("a", " / mask.sum()"), ("b", ""))
    ]
    assert "no run tells" in open_[0] and not open_[1]
