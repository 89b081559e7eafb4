"""``--audit=all``: what only may be a fault is a finding on request, and one line by default."""

import subprocess
import sys
from pathlib import Path

import pytest

BESIDE_THE_OPTIMIZER = """\
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for _ in range(30):
    x = torch.randn(16, 4)
    loss = (head(body(x).relu()) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(BESIDE_THE_OPTIMIZER)
    words = [sys.executable, "-m", "graphdoc", "run", *options, "train.py"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_network_that_no_optimizer_holds_is_a_finding_on_request_only(tmp_path: Path) -> None:
    asked = run(tmp_path, "--audit=all")
    assert asked.returncode == 0
    told = " ".join(asked.stderr.split())
    assert "GD701" in told and "no optimizer holds `head.*`" in told and "possible" in told
    plain = run(tmp_path)
    assert (plain.returncode, plain.stdout) == (0, "")
    assert " ".join(plain.stderr.split()) == (
        "note: `head.*` (2 parameters) get gradients that no optimizer uses. "
        "If they are meant to learn, `graphdoc run --audit all` tells more."
    )
    assert run(tmp_path, "--strict").returncode == 0
