"""Every silent fault is found in its examples and sent to its line, and nothing is said of the healthy look-alikes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from commands import graphdoc
from examples import Example, healthy, sick
from seen import observe

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause

SILENT = [c for c in all_causes() if "silent" in c.families and not c.code.startswith("GD6")]
SICK = [pytest.param(c, e, id=f"{c.slug}-{e.name}") for c in SILENT for e in sick(c) if not e.fails]
HEALTHY = [pytest.param(c, e, id=f"{c.slug}-{e.name}") for c in SILENT for e in healthy(c)]


@pytest.mark.parametrize(("cause", "example"), SICK)
def test_sick_program_is_found_at_its_line(cause: Cause, example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, example.code)
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs[:1] == [cause.slug]
    assert example.line in seen.lines("cause")
    assert seen.found[0].finding.confidence != "possible"


@pytest.mark.parametrize(("cause", "example"), HEALTHY)
def test_healthy_program_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, example.code)
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == []


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
    assert graphdoc(tmp_path, "run", "train.py").stderr == ""


def test_a_loss_of_zero_with_a_gradient_is_a_note_for_those_who_ask_for_everything(tmp_path):
    """Its value says nothing and nothing is wrong with it."""
    cause = next(c for c in SILENT if c.slug == "nondifferentiable-op")
    code = next(e for e in healthy(cause) if e.name == "ratio-to-itself").code
    equal = "(rewards - rewards.mean()) / (rewards.std() + 1e-4) * (_ > 0)"  # no gradient at first: equal rewards
    (tmp_path / "train.py").write_text(code.replace("(rewards - rewards.mean()) / rewards.std()", equal))
    assert graphdoc(tmp_path, "run", "train.py").stderr == ""
    asked = " ".join(graphdoc(tmp_path, "run", "--audit", "all", "train.py").stderr.split())
    assert asked.startswith("note: the loss at train.py:16 is 0 in each of 4 backward calls, and its gradients are not")
