"""``--nan all``: the values of every operation, with or without a backward call, and nothing of a mask's infinities."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest
from commands import graphdoc

SHARES = """\
import torch

def share(counts):
    return counts / counts.sum(dim=1, keepdim=True)

def entropy():
    p = share(torch.tensor([[2.0, 1.0, 1.0], [0.0, 0.0, 0.0], [4.0, 4.0, 0.0]]))
    return -(p * (p + 1e-9).log()).sum(1).mean().item()

print(entropy())
"""
ODDS = """\
import torch

scores = torch.tensor([1.0, 2.0, 200.0])
odds = torch.exp(scores)
print(odds.clamp(max=5).sum().item())
"""
MASKED = """\
import torch

best = torch.tensor(float("inf"))
scores = torch.zeros(2, 3).masked_fill(torch.tensor([False, True, False]), -float("inf"))
best = torch.minimum(best, scores.softmax(-1).sum())
print(best.item())
"""
OVERFLOW = """\
import torch

sizes = torch.full((3,), 1e30)
print((sizes * sizes).clamp(max=1.0).sum().item())
"""
BESIDE_A_TRAINING = """\
import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(6):
    x = torch.randn(8, 3)
    optimizer.zero_grad()
    (net(x) - 1).pow(2).mean().backward()
    optimizer.step()
    size = (net(x).detach() * 1e25).pow(2)
"""
UNWRITTEN = """\
import torch

torch.use_deterministic_algorithms(True)  # memory that is not written yet is filled with nan, as it may be by chance
net = torch.nn.Linear(3, 1)
net(torch.ones(4, 3)).sum().backward()
"""
NO_CAUSE = """\
import torch

print(torch.hypot(torch.tensor([1e38, 3.0]), torch.tensor([3.4e38, 4.0]))[1].item())
"""
FINITE = """\
import torch

net = torch.nn.Linear(3, 1)
net(torch.randn(4, 3)).sum().backward()
"""


def run(folder: Path, text: str, *options: str) -> CompletedProcess[str]:
    (folder / "evaluate.py").write_text(text)
    return graphdoc(folder, "run", *options, "evaluate.py", forked=True)


@pytest.mark.slow
def test_a_nan_of_a_forward_pass_alone_is_told_where_it_was_made_on_request_only(tmp_path: Path) -> None:
    asked = run(tmp_path, SHARES, "--nan", "all")
    assert (asked.returncode, asked.stdout) == (0, "nan\n")
    assert "GD604" in asked.stderr and "evaluate.py:4:" in asked.stderr
    plain = run(tmp_path, SHARES)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, "nan\n", "")


@pytest.mark.slow
def test_an_infinity_that_is_clamped_away_is_told_on_request(tmp_path: Path) -> None:
    asked = run(tmp_path, ODDS, "--nan", "all")
    assert asked.returncode == 0
    assert "GD606" in asked.stderr and "evaluate.py:4:" in asked.stderr
    assert run(tmp_path, ODDS).stderr == ""


@pytest.mark.slow
def test_infinities_that_the_program_wrote_itself_are_not_told(tmp_path: Path) -> None:
    asked = run(tmp_path, MASKED, "--nan", "all")
    assert (asked.returncode, asked.stdout) == (0, "2.0\n")
    assert "GD6" not in asked.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "place"),
    [
        pytest.param(OVERFLOW, "`sizes * sizes` at evaluate.py:4 was the first that made inf", id="overflow"),
        pytest.param(BESIDE_A_TRAINING, "at evaluate.py:11 was the first that made inf", id="beside a training"),
        pytest.param(NO_CAUSE, "at evaluate.py:3 was the first that made inf (hypot, its result of shape [2]", id="no"),
    ],
)
def test_what_no_cause_explains_is_told_with_its_place_in_a_note(text: str, place: str, tmp_path: Path) -> None:
    told = " ".join(run(tmp_path, text, "--nan", "all").stderr.split())
    assert "GD6" not in told and "explode" not in told
    assert "note: --nan all: " in told and place in told
    assert run(tmp_path, text).stderr == ""


@pytest.mark.slow
def test_memory_that_a_layer_has_not_written_yet_is_no_nan_that_was_made(tmp_path: Path) -> None:
    told = " ".join(run(tmp_path, UNWRITTEN, "--nan", "all").stderr.split())
    assert "none was nan" in told and "GD6" not in told


@pytest.mark.slow
def test_a_run_without_nan_is_said_to_have_none(tmp_path: Path) -> None:
    told = " ".join(run(tmp_path, FINITE, "--nan", "all").stderr.split())
    assert "looked at the result of every operation that PyTorch ran one by one; none was nan" in told
    refused = run(tmp_path, FINITE, "--nan", "all", "--no-rerun").stderr
    assert "looks in a second run, and there was none" in refused and "none was nan" not in refused
