"""Losses, and terms of losses, whose gradients nobody uses: the step that follows is of an optimizer they pass by."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))
judge = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
making, judging = (torch.optim.Adam(m.parameters(), 1e-3) for m in (maker, judge))
seer = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
yes, no = torch.ones(8, 1), torch.zeros(8, 1)
bce = F.binary_cross_entropy_with_logits


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for step in range(12):
    real = torch.randn(8, 6)
"""
JUDGED = "    update(judging, bce(judge(real), yes) + bce(judge(made.detach()), no))\n"
MADE = "    made = maker(torch.randn(8, 4))\n"

SICK = {
    "whole loss on detached images": (
        MADE + JUDGED + "    update(making, bce(judge(made.detach()), yes))\n",
        "cut-by-detach",
        "update(making, bce(judge(made.detach()), yes))",
    ),
    "one term of two": (
        MADE + JUDGED + "    scores = judge(made.detach())\n"
        "    update(making, F.l1_loss(made, real) + 0.1 * bce(scores, yes))\n",
        "cut-by-detach",
        "scores = judge(made.detach())",
    ),
    "made without recording": (
        "    with torch.no_grad():\n        made = maker(torch.randn(8, 4))\n"
        "    update(judging, bce(judge(real), yes) + bce(judge(made), no))\n"
        "    update(making, bce(judge(made), yes))\n",
        "cut-by-no-grad",
        "with torch.no_grad():",
    ),
    "features of an array, by a network that nobody trains": (
        MADE + "    shown = torch.from_numpy(made.detach().numpy())\n"
        "    update(making, F.l1_loss(made, real) + F.mse_loss(seer(shown), seer(real)))\n",
        "cut-by-conversion",
        "shown = torch.from_numpy(made.detach().numpy())",
    ),
    "features of a list, by such a network": (
        MADE + "    shown = torch.tensor(made.tolist())\n"
        "    update(making, F.l1_loss(made, real) + F.mse_loss(seer(shown), seer(real)))\n",
        "cut-by-conversion",
        "shown = torch.tensor(made.tolist())",
    ),
    "features of what was made ready without recording": (
        MADE + "    with torch.no_grad():\n        shown = (made + 1) / 2\n"
        "    update(making, F.l1_loss(made, real) + F.mse_loss(seer(shown), seer(real)))\n",
        "cut-by-no-grad",
        "with torch.no_grad():",
    ),
}

HEALTHY = {
    "both learn": MADE + JUDGED + "    update(making, bce(judge(made), yes) + F.l1_loss(made, real))\n",
    "a network that is updated by hand": MADE
    + "    update(making, F.l1_loss(made, real) + seer(made.detach()).mean())\n"
    "    for p in seer.parameters():\n        p.data -= 0.1 * p.grad\n        p.grad = None\n",
    "features to match are constants": MADE
    + JUDGED
    + "    update(making, bce(judge(made), yes) + F.mse_loss(judge[0](made), judge[0](real).detach()))\n",
    "one backward and two steps": MADE
    + "    loss = bce(judge(real), yes) + bce(judge(made.detach()), no) + F.l1_loss(made, real)\n"
    "    making.zero_grad()\n    judging.zero_grad()\n    loss.backward()\n    making.step()\n    judging.step()\n",
    "a step of both for a while": MADE + "    making.zero_grad()\n    judging.zero_grad()\n"
    "    (bce(judge(real), yes) + bce(judge(made.detach()), no)).backward()\n"
    "    if step > 9:\n        bce(judge(made), yes).backward()\n"
    "    making.step()\n    judging.step()\n",
    "collected for a later step": MADE + "    value = judge(made.detach())\n"
    "    update(making, F.l1_loss(made, real) + F.mse_loss(value, yes))\n"
    "    if step % 4 == 3:\n        judging.step()\n        judging.zero_grad()\n",
    "features of what is made": MADE + "    update(making, F.mse_loss(seer(made), seer(real)))\n",
    "features of real images alone": MADE + "    update(making, F.l1_loss(made, real) + seer(real).pow(2).mean())\n",
    "gradients that are looked at": MADE + "    update(making, F.l1_loss(made, real) + seer(made.detach()).mean())\n"
    "    seen = [p.grad**2 for p in seer.parameters()]\n    seer.zero_grad()\n",
    "an optimizer that is made later": MADE + "    update(making, F.l1_loss(made, real) + seer(made.detach()).mean())\n"
    "    if step == 8:\n        seeing = torch.optim.SGD(seer.parameters(), 0.1)\n"
    "    if step >= 8:\n        seeing.step()\n        seeing.zero_grad()\n",
    "a teacher's answer": MADE + "    taught = judge(made.detach()).detach()\n"
    "    update(making, F.mse_loss(made[:, :1], taught) + F.l1_loss(made, real))\n"
    "    update(judging, bce(judge(real), yes))\n",
}


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", SICK)
def test_the_cut_is_told_though_nothing_fails(name: str, tmp_path: Path) -> None:
    code, slug, line = SICK[name]
    seen = observe(tmp_path, HEAD + code)
    assert seen.result.status == 0
    assert seen.slugs[:1] == [slug]
    assert seen.lines("cause")[0] == line
    assert "maker.*" in seen.found[0].finding.title
    assert ("go to no optimizer" in seen.found[0].finding.because) == ("seer" in code)
    assert seen.patches(), "there is an edit to try"


@pytest.mark.slow
def test_a_term_is_not_called_the_whole(tmp_path: Path) -> None:
    """What a term does not reach may learn from the others: that is said, and not as certain."""
    finding = observe(tmp_path, HEAD + SICK["one term of two"][0]).found[0].finding
    assert finding.confidence == "likely"
    assert "a term of this loss" in finding.title


@pytest.mark.breadth(2)
@pytest.mark.parametrize("name", HEALTHY)
def test_what_somebody_uses_is_left_alone(name: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + HEALTHY[name])
    assert (seen.result.status, seen.found) == (0, [])
