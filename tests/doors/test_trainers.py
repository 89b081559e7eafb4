"""Hugging Face's Trainer and Accelerate, the real ones: the report names the user's own line at either door."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TRAINER = """\
import sys
import graphdoc
import torch
from transformers import Trainer, TrainingArguments

class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.GRUCell(4, 1)
        self.state = torch.zeros(2, 1)

    def forward(self, x):
        self.state = self.cell(x, self.state)
        return {"loss": self.state.pow(2).mean()}

data = [{"x": torch.randn(4)} for _ in range(8)]
arguments = TrainingArguments(
    "out", per_device_train_batch_size=2, num_train_epochs=1, report_to=[], save_strategy="no", use_cpu=True,
    disable_tqdm=True,
)
with graphdoc.observe():
    Trainer(Recurrent(), arguments, train_dataset=data).train()
"""
ACCELERATE = """\
import graphdoc
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
cell = torch.nn.GRUCell(4, 1)
cell, optimizer = accelerator.prepare(cell, torch.optim.SGD(cell.parameters(), lr=0.1))

def train(state):
    for _ in range(3):
        state = cell(torch.randn(2, 4), state)
        optimizer.zero_grad()
        accelerator.backward(state.pow(2).mean())
        optimizer.step()

with graphdoc.observe():
    train(torch.zeros(2, 1))
"""
PROGRAMS = {"transformers": (TRAINER, "13"), "accelerate": (ACCELERATE, "11")}


def told(folder: Path, *words: str) -> tuple[str, str]:
    """The code and the line that a run of the program reports; it must have failed as without graphdoc."""
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == 1 and "RuntimeError: Trying to backward" in done.stderr, done.stderr
    (code,) = re.findall(r"(?m)^error\[(GD\d+)\]", done.stderr)
    return code, re.findall(r"(?m)^ +--> (\S+):\d+$", done.stderr)[0]  # how much of the line, a second run may tell


@pytest.mark.parametrize("package", PROGRAMS)
def test_the_block_tells_the_same_as_the_command_line(tmp_path: Path, package: str) -> None:
    pytest.importorskip(package)
    program, place = PROGRAMS[package]
    (tmp_path / "fit.py").write_text(program)
    assert told(tmp_path, "fit.py") == told(tmp_path, "-m", "graphdoc", "run", "fit.py") == ("GD101", f"fit.py:{place}")


def test_no_callback_is_told_of_an_exception() -> None:
    """The reason why there is none of ours for these two: should one of them tell, a callback is worth having."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from accelerate.tracking import GeneralTracker
    from transformers import TrainerCallback

    told = [name for kind in (TrainerCallback, GeneralTracker) for name in dir(kind) if "exception" in name.lower()]
    assert told == []
