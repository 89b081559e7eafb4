"""A nan that a DTensor holds is followed through the parts of it that lie in this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from seen import observe

pytest.importorskip("torch.distributed.tensor")

TRAINING = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
torch.manual_seed(0)
net = nn.Linear(4, 1)
net.weight = nn.Parameter(distribute_tensor(net.weight.detach(), mesh, [Shard(0)]))
net.bias = nn.Parameter(distribute_tensor(net.bias.detach(), mesh, [Shard(0)]))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(4):
    x = distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)])
    out = net(x)
    loss = LOSS
    optimizer.zero_grad()
    loss.full_tensor().backward()
    optimizer.step()
dist.destroy_process_group()
"""

OF_TWO = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
net = nn.Linear(4, 1)
net.weight = nn.Parameter(distribute_tensor(net.weight.detach(), mesh, [Replicate()]))
net.bias = nn.Parameter(distribute_tensor(net.bias.detach(), mesh, [Replicate()]))
for step in range(3):
    rows = torch.randn(8, 4)
    rows[6] *= step < 1
    x = distribute_tensor(rows, mesh, [Shard(0)])
    loss = (net(x) / x.norm(dim=1, keepdim=True)).pow(2).mean()
    loss.full_tensor().backward()
dist.destroy_process_group()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("loss", "slug"),
    [
        ("(out - out).sqrt().mean() + out.pow(2).mean()", "nan-sqrt-at-zero"),
        ("(out / (x - x).sum(1, keepdim=True)).mean()", "nan-division-by-zero"),
    ],
)
def test_the_operation_that_began_it_is_told(loss: str, slug: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, TRAINING.replace("LOSS", loss))
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == [slug]
    assert f"loss = {loss}" in seen.lines("cause")


def test_finite_ones_are_left_alone(tmp_path: Path) -> None:
    seen = observe(tmp_path, TRAINING.replace("LOSS", "(out - out + 1).sqrt().mean() + out.pow(2).mean()"))
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == []


@pytest.mark.slow
def test_what_another_process_has_sent_is_told_by_that_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OF_TWO)
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    words = [sys.executable, "-m", "graphdoc", "run", "--", *ranks]
    told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False).stderr
    assert "GD603" in told and "train.py:17:" in told
    assert "GD616" not in told and "1 of 4 elements of" in told
