"""A loss that is cut at several places: what one statement hands on keeps its graph together, what is left is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
mean, spread = nn.Linear(3, 1), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*mean.parameters(), *spread.parameters()], 0.1)
x, y = torch.randn(4, 3), torch.randn(4, 1)
"""
ONE_TUPLE = """
def predict(x):
    return mean(x).detach(), spread(x).detach()
for _ in range(2):
    m, s = predict(x)
    loss = ((y - m) ** 2 * torch.exp(-s) + s).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TWO_PLACES = """
def predict(x):
    m = mean(x).detach()
    return m, spread(x)
for _ in range(2):
    m, s = predict(x)
    loss = ((y - m) ** 2 * torch.exp(-s.detach())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
OF_NOBODY = """
teacher = nn.Linear(3, 1)
for _ in range(2):
    loss = ((teacher(x).detach() - mean(x).detach()) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_function_returns_together_is_kept_together(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + ONE_TUPLE)
    assert seen.slugs[0] == "cut-by-detach", seen.said
    remedy = seen.found[0].finding.remedies[0]
    assert remedy.kind == "several" and len(remedy.args["edits"]) == 2 and not remedy.open
    patched = next(iter(seen.patches()[0][1].values()))
    assert "return mean(x), spread(x)\n" in patched


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("code", "open_at"), [(TWO_PLACES, True), (OF_NOBODY, False)])
def test_what_stays_cut_off_and_may_be_meant_is_left_open(tmp_path: Path, code: str, open_at: bool) -> None:
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "cut-by-detach", seen.said
    remedy = seen.found[0].finding.remedies[0]
    assert ("whether that is meant, no run tells" in remedy.open) is open_at


def test_all_values_that_a_loss_copies_out_of_their_tensors_are_kept(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Embedding(6, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
good, bad = net(torch.tensor([0, 1])).sum(1), net(torch.tensor([2, 3])).sum(1)
good = torch.tensor(good, dtype=torch.float)
bad = torch.tensor(bad, dtype=torch.float)
loss = nn.functional.margin_ranking_loss(good, bad, torch.ones(2), margin=1.0)
opt.zero_grad()
loss.backward()
opt.step()
"""
    seen = observe(tmp_path, code)
    assert seen.slugs[0] == "cut-by-conversion"
    _, texts = seen.patches()[0]
    assert "torch.tensor(good" not in texts["train.py"] and "torch.tensor(bad" not in texts["train.py"]
