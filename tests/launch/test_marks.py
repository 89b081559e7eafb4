"""The folder that a program fills with results: after ``run``, ``fix --diff``, ``--list`` and ``fix`` nothing of it has
changed but the patched source, whatever the way of isolation and whenever it is interrupted.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from marks import BOTH, below, state

from graphdoc.launch import Request
from graphdoc.launch.isolation import Stop, launch_apart
from graphdoc.launch.isolation.apart import SWITCH

# Its loss has lost its graph: what a second run asks about, and a fix puts right.
PROGRAM = """\
import os
import shutil
import sqlite3

import numpy
import torch

shutil.rmtree("out")
os.makedirs("out")
number = len(os.listdir("runs"))
os.makedirs(f"runs/run{number}")
count = int(open("counter").read()) + 1
open("counter", "w").write(str(count))
base = sqlite3.connect("results.db")
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4000):
    loss = torch.tensor(net(torch.ones(4, 2)).pow(2).mean().item())
    with open("metrics.csv", "a") as f:
        f.write(f"{step},{loss}\\n")
    base.execute("insert into r values (1)")
    base.commit()
    torch.save(net.state_dict(), "out/net.pt")
    torch.save(net.state_dict(), f"runs/run{number}/{step}.pt")
    numpy.ones(4).tofile("out/raw.bin")
    os.replace("out/raw.bin", "out/last.bin")
    open(os.path.join("..", "outside", "log"), "a").write("x")
    open(os.path.expanduser("~/seen"), "w").write(str(step))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Folder:
    """The project, what lies beside it, and commands that are given there."""

    def __init__(self, root: Path, way: str) -> None:
        self.root, self.project = root, root / "project"
        for folder in (self.project / "out", self.project / "runs" / "run0", root / "outside", root / "home"):
            folder.mkdir(parents=True)
        (self.project / "out" / "notes.txt").write_text("put there by the user")
        (self.project / "counter").write_text("7")
        (self.project / "metrics.csv").write_text("step,loss\n")
        (self.project / "train.py").write_text(PROGRAM)
        base = sqlite3.connect(self.project / "results.db")
        base.execute("create table r (x)")
        base.commit()
        base.close()
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GRAPHDOC_", "PYTHON", "COV_"))}
        self.env = {**clean, SWITCH: way, "HOME": str(root / "home"), "MARK_OF_THIS_TEST": str(root)}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "graphdoc", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), cwd=self.project, env=self.env, capture_output=True, text=True, check=False
        )

    def state(self) -> dict[str, Any]:
        """All files but those that graphdoc keeps for itself."""
        return {k: v for k, v in state(self.root).items() if not k.startswith("project/.graphdoc")}


@pytest.fixture(params=BOTH)
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    return Folder(tmp_path, request.param)


@pytest.mark.slow
def test_only_the_patched_source_changes(folder: Folder) -> None:
    ran = folder.run("run", "train.py")
    assert ran.returncode == 1 and "once more" in ran.stderr and "did not fail in the same way" not in ran.stderr
    project = folder.project
    assert (project / "counter").read_text() == "8" and sorted(os.listdir(project / "runs")) == ["run0", "run1"]
    assert len((project / "metrics.csv").read_text().splitlines()) == 2
    assert len((folder.root / "outside" / "log").read_text()) == 1
    before = folder.state()

    tried = folder.run("fix", "--diff", "--verify-time", "300")
    assert tried.returncode == 0 and "again to try" in tried.stderr, tried.stderr
    assert ", verified]" in tried.stderr, tried.stderr
    assert folder.state() == before

    listed = folder.run("fix", "--list")
    assert "again" not in listed.stderr and ", verified]" in listed.stdout
    assert folder.state() == before

    applied = folder.run("fix", "--unsafe")
    assert applied.returncode == 0 and "again" not in applied.stderr, applied.stderr
    after = folder.state()
    assert after.pop("project/train.py") != before.pop("project/train.py")
    assert after.pop("project") != before.pop("project")  # the source was replaced in it
    assert after == before
    assert below(str(folder.root)) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_whenever_it_is_interrupted(folder: Folder, number: signal.Signals) -> None:
    folder.run("run", "--no-rerun", "train.py")
    before = folder.state()
    for moment in (0.0, 1.0, 3.0):
        process = subprocess.Popen(
            folder.command("fix", "--diff", "--no-rerun", "--verify-time", "300"),
            cwd=folder.project,
            env=folder.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert process.stderr is not None
        first = process.stderr.readline()
        time.sleep(moment)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        if number == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL or "again" not in first
        elif out:
            assert process.returncode == 0 and ", verified]" in err, err
        elif "again" in first:
            assert process.returncode == 128 + number and "interrupted, so no patch is printed" in err, err
        end = time.monotonic() + 30
        while below(str(folder.root)):
            assert time.monotonic() < end, "something goes on"
            time.sleep(0.02)
        assert folder.state() == before


@pytest.mark.slow
def test_the_second_run_ends_at_the_first_interrupt(folder: Folder) -> None:
    # From the second time on it takes its time.
    slow = "    if 'run2' in os.listdir('runs'):\n        __import__('time').sleep(60)\n    optimizer.zero_grad()"
    (folder.project / "train.py").write_text(PROGRAM.replace("    optimizer.zero_grad()", slow))
    process = subprocess.Popen(
        folder.command("run", "train.py"),
        cwd=folder.project,
        env=folder.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    seen = ""
    while "once more" not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    before = folder.state()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=50)
    assert process.returncode == 1
    assert "error[GD" in err and "it was interrupted" in " ".join(err.replace("note:", "").split()), err
    assert folder.state() == before and below(str(folder.root)) == []


TORCH = """
import os, torch
import torch.distributed as dist
module = torch.jit.script(torch.nn.Linear(2, 2))
torch.jit.save(module, "module.pt")
with torch.profiler.profile() as profile:
    torch.ones(2).sum()
profile.export_chrome_trace("trace.json")
torch.from_file("in-memory.bin", shared=True, size=4).fill_(1)
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
torch.save({}, "x.pt")
print(*sorted(os.listdir(".")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", BOTH)
def test_what_torch_writes_from_cpp_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    project, out = tmp_path / "project", tmp_path / "out"
    project.mkdir()
    out.mkdir()
    (project / "train.py").write_text(TORCH)
    (project / "in-memory.bin").write_bytes(bytes(16))
    before = state(project)
    ended = launch_apart(Request(["train.py"], cwd=str(project), timeout=120), out, Stop())
    assert ended.printed.split()[-6:] == ["in-memory.bin", "module.pt", "store", "trace.json", "train.py", "x.pt"]
    assert ended.exit_status == 0 and state(project) == before
