"""A run that graphdoc starts by itself ends when it has told enough, and says so when it could not get there."""

from __future__ import annotations

import dataclasses
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "launch"))

from marks import have_namespaces
from told_in_forks import launch
from tracing import traced

import graphdoc.probe
import graphdoc.verify.trial
from graphdoc.capture.trials.trace_end import AFTER, ENOUGH
from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import Forks, launch_apart
from graphdoc.launch.isolation.apart import SWITCH
from graphdoc.launch.keep import Kept, keep
from graphdoc.model import Fix
from graphdoc.probe import deepen
from graphdoc.processes import read_processes
from graphdoc.proposals import Candidate
from graphdoc.proposals.trying import Trying, _key, try_out
from graphdoc.verify.compared import Results

LONG = """\
import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    loss = net(torch.ones(4, 2)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("mode", ["verify:4:4", "verify:reference:4:4", "verify:-1:4"])
def test_it_says_when_it_has_told_enough(tmp_path: Path, mode: str) -> None:
    traced(tmp_path, LONG, mode)
    assert (tmp_path / ENOUGH).exists()


@pytest.mark.breadth(1)
@pytest.mark.parametrize("mode", ["verify:290:290", "verify:-1:-1", "verify"])
def test_a_run_that_ends_soon_or_failed_at_no_known_place_goes_to_its_end(tmp_path: Path, mode: str) -> None:
    ran = traced(tmp_path, LONG, mode)
    assert ran.trace.ended and ran.trace.total_steps == 100 and AFTER < 100 * 3
    assert not (tmp_path / ENOUGH).exists()


@pytest.mark.slow
def test_ranks_but_the_first_leave_it_to_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    folder = tmp_path / "one"
    with pytest.raises(AssertionError):  # no trace of rank 0 in that folder
        traced(folder, LONG, "verify:4:4")
    assert not (folder / ENOUGH).exists()


def kept_run(folder: Path, text: str) -> Kept:
    (folder / "train.py").write_text(textwrap.dedent(text))
    out = folder / "run"
    out.mkdir()
    request = Request(["train.py"], cwd=str(folder), quiet=True)
    kept = keep(out, request, launch(request, out))
    kept.save()
    return kept


CUT = """\
import os, time, torch
net = torch.nn.Linear(2, 1)
loss = torch.tensor(net(torch.ones(4, 2)).pow(2).mean().item())
try:
    loss.backward()
finally:
    if os.path.exists("run/run.json"):
        time.sleep(300)  # what a program does when it fails: saves, uploads, waits for others
"""


@pytest.mark.slow
def test_the_second_run_ends_at_its_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def launched(*given: Any, **more: Any) -> Ended:
        ended.append(launch_apart(*given, **more))
        return ended[-1]

    monkeypatch.setattr(graphdoc.probe, "launch_apart", launched)
    kept = kept_run(tmp_path, CUT)
    first = read_processes(kept).first
    assert first is not None and first.raised is not None
    second = deepen(kept, first)
    assert second is not None and second.probe == "probe:cuts" and second.raised is not None
    assert second.raised.uncaught and ended[0].stopped and not ended[0].timed_out


def candidates(kept: Kept) -> list[Candidate]:
    fix = Fix("x", "do x", "unsafe", "--- a/train.py\n")
    return [Candidate(fix, texts={str(kept.cwd / "train.py"): LONG})]


def test_a_failure_that_came_late_is_not_run_up_to(tmp_path: Path) -> None:
    kept = kept_run(tmp_path, "import torch\ntorch.ones(1, requires_grad=True).numpy()\n")
    evidence = read_processes(kept).first
    assert evidence is not None
    late = dataclasses.replace(kept, seconds=1200.0)
    (one,) = tried = candidates(late)
    said: list[str] = []
    try_out(late, evidence, tried, Trying(announce=said.append))
    assert said == [] and one.fix.verified is None
    assert one.fix.verification["summary"] == (
        "not tried: not reached: the run took 1200 s, and trials may take 60 s (--verify-time)"
    )


@pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")
@pytest.mark.slow
def test_all_runs_of_one_fix_share_the_import_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_run(tmp_path, "import torch\ntorch.ones(1, requires_grad=True).numpy()\n")
    evidence = read_processes(kept).first
    assert evidence is not None
    shared: list[Forks] = []

    def launched(*given: Any, forks: Forks, **more: Any) -> Ended:
        shared.append(forks)
        return launch_apart(*given, forks=forks, **more)

    monkeypatch.setattr(graphdoc.verify.trial, "launch_apart", launched)
    try_out(kept, evidence, candidates(kept), Trying())
    assert len({id(forks) for forks in shared}) == 1
    assert shared[0].runs == len(shared) > 1


@pytest.mark.slow
def test_where_nothing_holds_it_is_said_and_nothing_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_run(tmp_path, "import torch\nopen('seen', 'a').write('x')\ntorch.ones(1, requires_grad=True).numpy()\n")
    evidence = read_processes(kept).first
    assert evidence is not None
    monkeypatch.setenv(SWITCH, "none")
    (one,) = tried = candidates(kept)
    try_out(kept, evidence, tried, Trying())
    assert "cannot be kept from your files" in one.fix.verification["summary"]
    assert "--verify runs it all the same" in one.fix.verification["summary"]
    assert (tmp_path / "seen").read_text() == "x"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("import subprocess\nsubprocess.run(['touch', 'made'])", "starts another program (touch)"),
        ("import os\nos.system('touch made')", "starts a shell"),
        ("import ctypes\nctypes.CDLL(None).creat(b'made', 0o600)", "calls C by ctypes"),
        ("import _sqlite3\n_sqlite3.connect('made')", "opens the database made"),
        ("import posix\nposix.open('made', posix.O_CREAT)", "opens a file for writing"),
        ("import posix\nposix.mkdir('made')", "calls os.mkdir (made)"),
    ],
)
def test_what_the_layer_cannot_redirect_ends_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deed: str, why: str
) -> None:
    kept = kept_run(tmp_path, "import torch\ntorch.ones(1, requires_grad=True).numpy()\n")
    evidence = read_processes(kept).first
    assert evidence is not None
    monkeypatch.setenv(SWITCH, "layer")
    fix = Fix("x", "do x", "unsafe", "--- a/train.py\n")
    one = Candidate(fix, texts={str(kept.cwd / "train.py"): f"import torch\n{deed}\n"})
    try_out(kept, evidence, [one], Trying())
    assert one.fix.verified is None and why in one.fix.verification["summary"], one.fix.verification
    assert not (tmp_path / "made").exists()
    again = dataclasses.replace(one, fix=fix, texts=one.texts)
    try_out(kept, evidence, [again], Trying(announce=lambda line: pytest.fail(line)))
    assert why in again.fix.verification["summary"], "what was refused is kept with the run"
    assert Results(kept.folder).get(_key(one), 60.0, asked=True) is None, "asked for, it is tried"
