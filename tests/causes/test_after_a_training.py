"""What a process has trained before does not change what is told of the program that comes after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from examples import Example, healthy, sick
from seen import observe

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause

BEFORE = """
import torch
from torch import nn


def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


with torch.random.fork_rng():
    train(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), 12)
    net = model = nn.Linear(4, 2)
    train(net, 5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(12):
        loss = net(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
BOTH = """
import runpy

import before

runpy.run_path("train.py", run_name="__main__")
"""
EACH = 5
"""Of so many examples one is run: the others differ from it in what no earlier training touches."""
LOST = {
    "nondifferentiable-op-estimator-computed-and-never-used": "the terms are looked at from the first backward call on",
    "parameters-never-reached-weights-of-two-losses": "not told since the audit looks at fewer steps behind a training",
    "parameters-never-reached-loss-inside-a-trainer": "a note only: all calls are asked who steps that",
    "frozen-parameters-trainer-freezes-what-it-is-given": "weak: what is frozen after a training may be meant so",
    "result-left-out-regulariser-in-a-sum-that-is-logged": "told only where the signs of both runs are joined",
    "step-missing-gradients-of-a-copy-without-a-step": "steps of the training before say nothing of this optimizer",
    "step-missing-step-behind-a-remainder-by-one": "asked only where nothing has stepped or been cleared in the run",
    "result-left-out-penalty-added-after-backward": "told only where the signs of both runs are joined",
}
"""Faults that are not told after another training, and why."""


def _of(cause: Cause, example: Example) -> Any:
    name = f"{cause.slug}-{example.name}"
    marks = [pytest.mark.xfail(strict=True, reason=LOST[name])] if name in LOST else []
    return pytest.param(cause, example, id=name, marks=marks)


LEFT_BY_THE_REPORT = {
    *("cut-by-detach-prior-that-is-left-as-it-was-made", "cut-by-no-grad-refusals-checked-after-training"),
}
"""Healthy ones of which something is found, and which the report leaves alone: it knows what an author has meant, and
that the program went on."""
ACCUSED = {
    "parameters-never-reached-plain-weights-by-hand": "told (likely): leaves beside weights that are moved by hand",
}
"""Healthy programs that are told of after another training, wrongly, and why."""


SICK = [_of(c, e) for c in all_causes() for e in sick(c)[::EACH]]
HEALTHY = [
    pytest.param(c, e, id=name, marks=[pytest.mark.xfail(reason=ACCUSED[name])] if name in ACCUSED else [])
    for c in all_causes()
    for e in healthy(c)[::EACH]
    if (name := f"{c.slug}-{e.name}") not in LEFT_BY_THE_REPORT
]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("cause", "example"), SICK)
def test_a_sick_example_is_told_as_its_cause(cause: Cause, example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, BOTH, "main.py", before=BEFORE, train=example.code)
    assert cause.slug in seen.slugs[:1], seen.slugs


@pytest.mark.parametrize(("cause", "example"), HEALTHY)
def test_a_healthy_example_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, BOTH, "main.py", before=BEFORE, train=example.code)
    assert seen.mended, (seen.slugs, seen.said)
