"""A function that is called for what it writes into a leaf: its caller gets the clone, and one that takes it up does
not."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

from graphdoc.fixes.kinds import build
from graphdoc.source.module import Source

CODE = """\
import torch
from torch import nn


class Ring:
    def blank(self, xs):
        return xs.fill_(-3.0)


torch.manual_seed(0)
scores = nn.Parameter(torch.randn(2, 4, 4))
opt, ring = torch.optim.SGD([scores], lr=0.1), Ring()
for _ in range(3):
    table = scores.view(2, 4, 4)
    for b in range(2):
        BLANK
    opt.zero_grad()
    table.exp().sum().backward()
    opt.step()
"""


def test_the_clone_is_made_where_the_write_is_wanted(tmp_path: Path) -> None:
    code = CODE.replace("BLANK", "ring.blank(table[b, b + 1 :])")
    told = observe(tmp_path, code)
    assert told.slugs == ["inplace-on-leaf"]
    kinds = [r.kind for r in told.found[0].finding.remedies]
    assert kinds == ["add_statement", "under_no_grad_update"]
    remedy = told.found[0].finding.remedies[0]
    assert remedy.args["statement"] == "table = table.clone()"
    (text,) = build(remedy.kind, {"train.py": Source("train.py", code)}, remedy.args).values()
    assert observe(tmp_path / "mended", text).mended


@pytest.mark.parametrize("taken", ["kept = ring.blank(table[b, b + 1 :])", "print(ring.blank(table[b]).sum())"])
def test_what_the_function_returns_is_taken_up(taken: str, tmp_path: Path) -> None:
    told = observe(tmp_path, CODE.replace("BLANK", taken))
    kinds = [r.kind for r in told.found[0].finding.remedies]
    assert "clone_expression" in kinds and "add_statement" not in kinds
