"""Silent faults: what is no fault, and what is told of it on request."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import graphdoc
from examples import FOLDER

CLIPPED = """\
import torch
from torch import nn

torch.manual_seed(0)
maker, critic = nn.Linear(3, 5), nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 1))
making = torch.optim.RMSprop(maker.parameters())
judging = torch.optim.RMSprop(critic.parameters())
for i in range(12):
    for p in critic.parameters():
        p.data.clamp_(-0.01, 0.01)
    real = torch.randn(4, 5)
    judging.zero_grad()
    (critic(maker(torch.randn(4, 3)).detach()).mean() - critic(real).mean()).backward()
    judging.step()
    for p in critic.parameters():
        p.data.clamp_(-0.01, 0.01)
    if i % 3 == 0:
        making.zero_grad()
        (-critic(maker(torch.randn(4, 3))).mean()).backward()
        making.step()
"""


def test_a_critic_clipped_between_two_losses_is_not_suspected(tmp_path):
    """A suspicion would run every such program a second time."""
    (tmp_path / "train.py").write_text(CLIPPED)
    assert graphdoc(tmp_path, "run", "train.py", forked=True).stderr == ""


def test_a_loss_of_zero_with_a_gradient_is_a_note_for_those_who_ask_for_everything(tmp_path):
    """Its value says nothing and nothing is wrong with it."""
    code = (FOLDER / "nondifferentiable-op" / "ratio-to-itself.py").read_text()
    equal = "(rewards - rewards.mean()) / (rewards.std() + 1e-4) * (_ > 0)"  # no gradient at first: equal rewards
    (tmp_path / "train.py").write_text(code.replace("(rewards - rewards.mean()) / rewards.std()", equal))
    assert graphdoc(tmp_path, "run", "train.py", forked=True).stderr == ""
    asked = " ".join(graphdoc(tmp_path, "run", "--audit", "all", "train.py", forked=True).stderr.split())
    assert asked.startswith("note: the loss at train.py:16 is 0 in each of 4 backward calls, and its gradients are not")
