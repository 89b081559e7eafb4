"""What is seen while graphdoc runs a program by itself: on a terminal, in a log, and after Ctrl-C."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from commands import graphdoc
from terminal import on_terminal

from graphdoc.cli.output import Waiting
from graphdoc.launch.isolation import Stop

TWICE = """
import os, time
import torch

cell = torch.nn.GRUCell(2, 3)
opt = torch.optim.SGD(cell.parameters(), lr=0.01)
state = torch.zeros(1, 3)
for step in range(40):
    state = cell(torch.randn(1, 2), state if step > 3 else state.detach())
    loss = state.pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    time.sleep(PAUSE)
"""
UNRECORDED = """
import os, time
import torch
net = torch.nn.Linear(3, 3)
time.sleep(PAUSE if os.path.exists("been-here") else 3)
open("been-here", "w").close()

def moved(guess, wanted):
    distance = (net(guess) - wanted).abs().pow(3).sum()
    return guess.detach() - torch.autograd.grad(distance, guess)[0]

with torch.no_grad():
    moved(torch.randn(2, 3).requires_grad_(), torch.randn(2, 3))
"""
CUT_LATE = """
import time
import torch
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    out = net(torch.randn(4, 3))
    loss = (out if step < 15 else torch.tensor(out.tolist())).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    time.sleep(PAUSE)
"""


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("graphdoc.cli.output.time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("CI", raising=False)
    return now


def test_what_is_waited_for_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    monkeypatch.setattr(sys, "stderr", screen := _Terminal())
    monkeypatch.setenv("TERM", "xterm")
    stop = Stop()
    with Waiting(60) as waiting:
        stop.check()
        waiting.tell("")
        assert screen.getvalue() == ""
        waiting.tell("trying fix 1 of 3: detach `状態` where it is kept, and compute it again", lambda: "step 4")
        for clock[0] in (100.04, 103.0, 103.05):
            stop.check()
    stop.check()
    told = [line for line in re.split(r"\r|\n|\x1b\[[?\d]*[A-Za-z]", screen.getvalue()) if line]
    heads = dict.fromkeys(line[2:38] for line in told)  # rich draws the last one again before it takes it back
    assert list(heads) == ["trying fix 1 of 3, 0 of 60 s, step 4", "trying fix 1 of 3, 3 of 60 s, step 4"]
    assert all(line.endswith("…") for line in told)
    assert screen.getvalue().endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("stream", "variable"), [(io.StringIO, ("TERM", "xterm")), (_Terminal, ("TERM", "dumb")), (_Terminal, ("CI", "1"))]
)
def test_elsewhere_each_run_is_a_line_and_no_second_is(
    stream: type[io.StringIO], variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    monkeypatch.setattr(sys, "stderr", log := stream())
    monkeypatch.setenv(*variable)
    with Waiting() as waiting:
        waiting.announce("running it once more", "step 3 of 12", 30.0)
        clock[0] = 103.0
        Stop().check()
        waiting.tell("trying fix 1 of 3: detach", lambda: "step 4")
        waiting.tell("")
    assert log.getvalue() == "graphdoc: running it once more\ngraphdoc: trying fix 1 of 3: detach\n"


def _project(folder: Path, source: str, pause: float) -> Path:
    place = folder / "project"
    place.mkdir()
    (place / "train.py").write_text(source.replace("PAUSE", str(pause)))
    return place


def _files(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.slow
def test_the_first_report_comes_before_a_second_run_that_takes_long(tmp_path: Path) -> None:
    folder = _project(tmp_path, UNRECORDED, 0)
    seen = on_terminal(["run", "--report", "json:report.json", "train.py"], folder)
    assert seen.status == 1
    first, announced, rest = seen.stays.partition("graphdoc: looking closer: running the program once more to see ")
    second = rest.partition("looked closer: ")[2]
    assert announced and "error[GD303]: the loss is computed within a block of `no_grad`" in first
    assert second.startswith("a patch\n") and "runs under no_grad, so the loss has no graph" in second
    assert "looking closer, " in seen.screen and "looking closer, " not in seen.stays
    report = json.loads((folder / "report.json").read_text())
    assert "runs under no_grad, so the loss has no graph" in report["diagnoses"][0]["title"]
    # A log is read afterwards: it has one report.
    (folder / "been-here").unlink()
    done = graphdoc(folder, "run", "--report", "json:again.json", "train.py")
    assert done.stderr.count("error[GD303]") == 1 and "looked closer" not in done.stderr
    again = json.loads((folder / "again.json").read_text())
    assert again["diagnoses"] == report["diagnoses"]


@pytest.mark.slow
def test_ctrl_c_ends_the_second_run_and_leaves_the_first_report(tmp_path: Path) -> None:
    folder = _project(tmp_path, UNRECORDED, 60)
    seen = on_terminal(["run", "--report", "json:report.json", "train.py"], folder, b"looking closer, 1 of ")
    assert seen.status == 1
    assert seen.stays.count("error[GD303]") == 1 and "\nlooked closer:" not in seen.stays
    assert "note: no second run has looked closer: it was interrupted\n" in seen.stays
    assert json.loads((folder / "report.json").read_text())["diagnoses"][0]["code"] == "GD303"


@pytest.mark.slow
def test_the_second_run_shows_its_step_and_its_limit(tmp_path: Path) -> None:
    folder = _project(tmp_path, CUT_LATE, 0.2)
    seen = on_terminal(["run", "train.py"], folder, b", step ")
    assert re.search(r"looking closer, \d+ of \d+ s, step \d+ of 15", seen.screen)
    assert "no second run has looked closer: it was interrupted" in seen.stays


@pytest.mark.slow
def test_what_is_tried_is_seen_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    folder = _project(tmp_path, TWICE, 0.3)
    graphdoc(folder, "run", "train.py")
    (tmp_path / "scratch").mkdir()
    before = _files(folder)
    seen = on_terminal(["fix", "--diff"], folder, b", step ", TMPDIR=str(tmp_path / "scratch"))
    assert (seen.status, seen.out) == (130, "")
    assert re.search(r"trying fix 1 of \d, \d+ of (60|240) s, step \d+( of 4|, past)", seen.screen)
    assert seen.stays.endswith("graphdoc: interrupted, so no patch is printed\n")
    assert _files(folder) == before and not any((tmp_path / "scratch").glob("graphdoc-*"))
