"""What a process has trained before does not change what is told of the program that comes after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import told_in_forks
from examples import Example, healthy, sick

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

runpy.run_path("after.py", run_name="__main__")
"""
EACH = 5
"""Of so many examples one is run, chosen by its name: a new example must not put another in the place of one that is
run. The others differ from it in what no earlier training touches."""
LOST = {
    "nondifferentiable-op-estimator-computed-and-never-used": "the terms are looked at from the first backward call on",
    "nondifferentiable-op-latent-of-one-term-drawn-without-a-path": "the same: its second term has no sign so late",
    "nondifferentiable-op-margin-met-by-every-triplet": "gradients that are zero so late may be those of a trained net",
    "parameters-never-reached-weights-of-two-losses": "a note only: a loss is taken apart in the first steps",
    "parameters-never-reached-loss-inside-a-trainer": "a note only: all calls are asked who steps that",
    "frozen-parameters-trainer-freezes-what-it-is-given": "weak: what is frozen after a training may be meant so",
    "input-needs-grad-labels-beside-the-scores": "told as GD310: something in the process does require gradients",
    "input-needs-grad-weights-moved-by-hand": "told as GD310: something in the process does require gradients",
    "step-missing-gradients-of-a-copy-without-a-step": "steps of the training before say nothing of this optimizer",
    "step-missing-step-behind-a-remainder-by-one": "asked only where nothing has stepped or been cleared in the run",
}
"""Faults that are not told after another training, and why."""


ACCUSED = {
    "parameters-never-reached-plain-weights-by-hand": "told (likely): leaves beside weights that are moved by hand",
}
"""Healthy programs that are told of after another training, wrongly, and why."""


def _of(cause: Cause, example: Example, wrong: dict[str, str]) -> Any:
    name = f"{cause.slug}-{example.name}"
    marks = [pytest.mark.xfail(strict=True, reason=wrong[name])] if name in wrong else []
    return pytest.param(cause, example, id=name, marks=marks)


def _is_run(cause: Cause, example: Example) -> bool:
    name = f"{cause.slug}-{example.name}"
    return crc32(name.encode()) % EACH == 0 or name in {**LOST, **ACCUSED}


SICK = [_of(c, e, LOST) for c in all_causes() for e in sick(c) if _is_run(c, e)]
HEALTHY = [_of(c, e, ACCUSED) for c in all_causes() for e in healthy(c) if _is_run(c, e)]

pytestmark = pytest.mark.slow


def _diagnoses(folder: Path, example: Example) -> list[str]:
    """The slugs of what the report tells of this example after another training."""
    for name, text in (("train", BOTH), ("before", BEFORE), ("after", example.code)):
        (folder / f"{name}.py").write_text(text)
    return [d.cause for d in told_in_forks.run(folder).report.diagnoses]


@pytest.mark.parametrize(("cause", "example"), SICK)
def test_a_sick_example_is_told_as_its_cause(cause: Cause, example: Example, tmp_path: Path) -> None:
    assert cause.slug in _diagnoses(tmp_path, example)[:1]


@pytest.mark.parametrize(("cause", "example"), HEALTHY)
def test_a_healthy_example_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    assert _diagnoses(tmp_path, example) == []
