"""The versions that a report tells are those of the message that the user has seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from told_in_forks import run

from graphdoc.evidence import SO_FAR, THINNED, Evidence, Optimizer, Parameter, Sign, Stale, Tensor, Write
from graphdoc.second_run import add_later, take_over
from graphdoc.story.gradients import gradients


def stale(expected: int, current: int, name: str = "state", writes: tuple[Write, ...] = ()) -> Stale:
    return Stale(0, "_saved_input", Tensor(name=name), expected, current, writes=list(writes))


@pytest.mark.parametrize(("name", "current", "told"), [("state", 2, 3), ("state", 3, 0), ("other", 2, 0)])
def test_versions_are_those_of_the_first_run(name: str, current: int, told: int) -> None:
    """Where both runs have seen the same tensor written as often."""
    first, second = Evidence(), Evidence()
    first.stale = [stale(3, 5)]
    second.stale = [stale(0, current, name, (Write("zero_", version=1), Write("add_", version=-1)))]
    take_over(first, second, "probe:writes")
    (found,) = second.stale
    assert (found.expected, found.current) == (told, told + current)
    assert [w.version for w in found.writes] == [1 + told, -1]


def test_what_the_first_run_has_come_to_is_kept() -> None:
    """A second run is ended once it has seen enough: perhaps before the file that a sign of the first one is about."""
    first, second = Evidence(), Evidence()
    first.sources = {"train.py": "import later", "later.py": "optimizer.step()"}
    second.sources = {"train.py": "import later"}
    first.optimizers = [Optimizer(0, "SGD", steps=9), Optimizer(1, "Adam")]
    second.optimizers = [Optimizer(0, "SGD", steps=4)]
    first.parameters = [Parameter("net.weight"), Parameter("later.weight")]
    second.parameters = [Parameter("net.weight")]
    add_later(first, second, whole=False)
    assert second.sources == first.sources
    assert [(o.id, o.steps) for o in second.optimizers] == [(0, 4), (1, 0)]
    assert [p.name for p in second.parameters] == ["net.weight", "later.weight"]


@pytest.mark.parametrize("whole", [False, True])
def test_what_later_steps_may_contradict_is_told_by_the_run_that_saw_them(whole: bool) -> None:
    """A reward that comes late, and an optimizer that steps late, are unknown to a run that was ended before it; so is
    whether a loss became finite."""
    first, second = Evidence(), Evidence()
    first.signs = [Sign("suspect-zero"), Sign(THINNED)]
    second.signs = [Sign("zero-derivative", facts={SO_FAR: True}), Sign("nonfinite"), Sign("gradients")]
    add_later(first, second, whole)
    assert [s.kind for s in second.signs] == [*["zero-derivative"] * whole, "gradients", "suspect-zero"]


LATER_TERM = """\
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
rows = torch.randn(32, 4)
wanted = torch.tensor((rows[:, 0] > 0).long().tolist())
seen = {}


def steps(net, count, loss_of):
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(count):
        optimizer.zero_grad()
        loss_of(net(rows)).backward()
        optimizer.step()


def noted(name, value):
    seen[name] = value.detach()
    return RETURNED


coarse, fine = nn.Linear(4, 2), nn.Linear(4, 2)
steps(coarse, 60, lambda out: F.cross_entropy(out, wanted))
aim = coarse(rows).softmax(1).detach()
steps(fine, 12, lambda out: F.cross_entropy(out, wanted) + noted("soft", F.mse_loss(out.softmax(1), aim)))
"""


@pytest.mark.parametrize(("returned", "told"), [("seen[name]", ["cut-by-detach"]), ("value", [])])
def test_a_question_about_a_later_training_waits_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returned: str, told: list[str]
) -> None:
    """All that was to be measured of the first optimizer is known long before the second one steps."""
    monkeypatch.setattr("graphdoc.probe.LEAVING", 0.0)
    (tmp_path / "train.py").write_text(LATER_TERM.replace("RETURNED", returned))
    assert [f.cause for f in run(tmp_path).report.diagnoses] == told


def test_who_asks_for_all_gradients_is_told_of_those_of_each_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphdoc.probe.LEAVING", 0.0)
    (tmp_path / "train.py").write_text(LATER_TERM.replace("RETURNED", "value"))
    seen = run(tmp_path, mode="observe:check-gradients").evidence
    assert {s.optimizer for s in seen.signs if s.kind == "gradients"} == {0, 1}


IN_A_BLOCK = """\
import torch
from torch import nn

torch.manual_seed(0)
scene, head = nn.Conv2d(1, 4, 3), nn.Linear(4 * 36, 1)
scene_opt, head_opt = torch.optim.Adam(scene.parameters()), torch.optim.Adam(head.parameters())
for _ in range(12):
    x = torch.rand(8, 1, 8, 8)
    with torch.no_grad():
        seen = scene(x).relu().flatten(1)
    OUTSIDE
    loss = (head(seen) - x.mean((1, 2, 3))[:, None]).square().mean()
    scene_opt.zero_grad()
    head_opt.zero_grad()
    loss.backward()
    head_opt.step()
    scene_opt.step()
"""


@pytest.mark.parametrize(("outside", "cause"), [("", "cut-by-no-grad"), ("seen = seen + scene(x).max().item()", "")])
def test_what_is_too_large_to_be_held_is_told_by_the_one_block_around_it(
    outside: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphdoc.capture.whatif.cut_places.MOST_VALUES", 10)
    (tmp_path / "train.py").write_text(IN_A_BLOCK.replace("OUTSIDE", outside))
    told = {d.cause for d in run(tmp_path, mode="observe:check-gradients").report.diagnoses}
    assert cause in told if cause else "cut-by-no-grad" not in told


TURNED = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(6):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    CHANGE
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("nn.utils.clip_grad_norm_(model.parameters(), 0.1)", False),
        ("[p.grad.sign_() for p in model.parameters()]", True),
    ],
)
def test_gradients_that_the_program_turns_are_not_called_those_of_the_step(
    tmp_path: Path, change: str, said: bool
) -> None:
    (tmp_path / "train.py").write_text(TURNED.replace("CHANGE", change))
    lines = gradients(run(tmp_path, mode="observe:check-gradients").evidence)
    assert ["they are changed before the step" in line for line in lines] == [said]
