"""A list of losses that is plotted: what is put in keeps its graph for nothing; one that is learned from needs it."""

from __future__ import annotations

from pathlib import Path

from seen import observe

CODE = """\
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)


def train():
    shown = []
    for step in range(3):
        {more}
        loss = net(torch.randn(4, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown.append(loss)
    np.asarray(shown)


train()
"""


def test_what_is_put_in_loses_its_graph_there(tmp_path: Path) -> None:
    code = CODE.format(more="pass")
    seen = observe(tmp_path / "sick", code)
    assert seen.slugs[0] == "numpy-on-grad-tensor" and seen.lines("created") == ["shown.append(loss)"]
    new = seen.patches()[0][1]["train.py"]
    assert "shown.append(loss.detach())" in new
    assert observe(tmp_path / "mended", new).mended


def test_a_list_that_is_read_before_keeps_what_it_has(tmp_path: Path) -> None:
    more = "reg = sum(shown) if shown else 0.0"
    code = CODE.format(more=more)
    remedies = observe(tmp_path, code).found[0].finding.remedies
    assert remedies and "goes into" not in remedies[0].title
