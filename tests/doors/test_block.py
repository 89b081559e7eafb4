"""``with graphdoc.observe():`` and the Lightning callback in programs that nobody wraps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BLOCK = """\
import sys
import torch
import graphdoc

def train(cell, steps):
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    state = torch.zeros(1, 4)
    for _ in range(steps):
        state = torch.tanh(cell(state))
        loss = state.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with graphdoc.observe():
    train(torch.nn.Linear(4, 4), 1)
try:
    with graphdoc.observe():
        raise KeyError("none of ours")
except KeyError:
    print("healthy so far", torch.is_anomaly_enabled(), file=sys.stderr)
with graphdoc.observe():
    train(torch.nn.Linear(4, 4), int(sys.argv[1]))
"""

FIT = """\
import lightning as L
import torch
from graphdoc.doors.lightning import GraphDoc
from torch.utils.data import DataLoader, TensorDataset

class Recurrent(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 1)
        self.state = torch.zeros(8, 1)

    def training_step(self, batch, batch_idx):
        self.state = self.cell(batch[0], self.state)
        return self.state.pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
trainer = L.Trainer(max_epochs=1, callbacks=[GraphDoc()], **quiet)
trainer.fit(Recurrent(), DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8))
"""


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=240)


def test_a_block_that_fails_is_told_and_its_exception_goes_on(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(BLOCK)
    done = python(tmp_path, "serve.py", "3")
    before, _, after = done.stderr.partition("healthy so far False\n")
    assert before == "" and done.returncode == 1
    assert "error[GD101]" in after and "--> serve.py:9:9" in after
    assert after.rstrip().splitlines()[-1].startswith("RuntimeError: Trying to backward")
    run = next((tmp_path / ".graphdoc").glob("*/run.json"))
    assert json.loads(run.read_text())["request"]["command"] == ["serve.py", "3"]
    quiet = python(tmp_path, "serve.py", "1")
    assert (quiet.stderr, quiet.returncode) == ("healthy so far False\n", 0)


def test_in_a_program_that_is_observed_as_a_whole_it_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(BLOCK)
    done = python(tmp_path, "-m", "graphdoc", "run", "serve.py", "3")
    assert done.stderr.count("error[GD") == 1 and len(list((tmp_path / ".graphdoc").glob("*/run.json"))) == 1


def test_lightning_tells_its_callback(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    (tmp_path / "fit.py").write_text(FIT)
    done = python(tmp_path, "fit.py")
    assert done.returncode == 1 and "error[GD101]" in done.stderr and "--> fit.py:13:9" in done.stderr
