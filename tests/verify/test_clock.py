"""The time that a user was told is kept by the clock, and what it did not suffice for is not begun again unasked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import graphdoc as command

import graphdoc.launch.isolation.apart
import graphdoc.proposals.trying
import graphdoc.verify.traces
import graphdoc.verify.trial
from graphdoc.evidence import Evidence
from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import Stop, launch_apart
from graphdoc.launch.keep import Kept
from graphdoc.model import Fix
from graphdoc.processes import read_processes
from graphdoc.proposals import Candidate
from graphdoc.proposals.trying import Trying, try_out

SICK = """\
import torch
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(4, 2)
state = torch.zeros(4, 1)
for step in range(6):
    state = net(x) + state
    loss = state.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Clock:
    """A clock that moves on when it is told to, beside the real one."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (graphdoc.proposals.trying, graphdoc.verify.trial):
        monkeypatch.setattr(module, "time", clock, raising=False)
    return clock


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kept, Evidence]:
    folder = tmp_path_factory.mktemp("sick")
    (folder / "train.py").write_text(SICK)
    assert command(folder, "run", "train.py", forked=True).returncode == 1
    from graphdoc.launch.keep import last_run

    kept = replace(last_run(folder), seconds=1.0)
    evidence = read_processes(kept).first
    assert evidence is not None
    return kept, evidence


def several(kept: Kept, count: int) -> list[Candidate]:
    path = str(kept.cwd / "train.py")
    fix = Fix("x", "do x", "unsafe", "--- a/train.py\n")
    return [Candidate(fix, texts={path: SICK.replace("mean()", f"mean()  # {n}")}) for n in range(count)]


def slow(clock: Clock, folder: Path) -> tuple[Callable[..., Ended], list[float]]:
    """Runs that use up whatever time they are given and a while beyond, as on a loaded machine."""
    given: list[float] = []

    def launched(request: Request, out: Path, stop: Stop, **more: Any) -> Ended:
        assert request.timeout is not None
        given.append(request.timeout)
        clock.now += request.timeout + 2.0
        return Ended(137, 9, seconds=request.timeout + 2.0, timed_out=True)

    return launched, given


def test_all_runs_together_keep_within_the_time(
    sick: tuple[Kept, Evidence], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, evidence = sick
    launched, given = slow(clock, kept.folder)
    monkeypatch.setattr(graphdoc.verify.trial, "launch_apart", launched)
    # The patched program got far enough to be compared, so the original is run as well: twice, as it comes nowhere.
    monkeypatch.setattr(graphdoc.verify.trial, "crashed", lambda outcome, trace: None)
    traces = iter([SimpleNamespace(total_steps=3, last_index=10**6)] + [None] * 20)
    monkeypatch.setattr(graphdoc.verify.traces, "read_trace", lambda folder: next(traces))
    monkeypatch.setattr(graphdoc.verify.trial, "back_to_original", lambda *given: None)
    (first, *_) = tried = several(kept, 4)
    try_out(kept, evidence, tried, Trying(seconds=60.0))
    assert clock.now <= 60.0 + 2.0, given
    assert "to compare with: it came to no backward call within" in first.fix.verification["summary"]


def test_the_original_without_time_left_is_said(
    sick: tuple[Kept, Evidence], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, evidence = sick
    launched, given = slow(clock, kept.folder)
    monkeypatch.setattr(graphdoc.verify.trial, "launch_apart", launched)
    monkeypatch.setattr(graphdoc.verify.trial, "crashed", lambda outcome, trace: None)
    far = SimpleNamespace(total_steps=3, last_index=10**6)
    monkeypatch.setattr(graphdoc.verify.traces, "read_trace", lambda folder: far)
    monkeypatch.setattr(graphdoc.verify.trial, "back_to_original", lambda *given: None)
    (one,) = tried = several(kept, 1)
    one.texts[str(kept.cwd / "train.py")] += "# alone\n"
    try_out(kept, evidence, tried, Trying(seconds=10.0))
    assert given == [10.0]
    assert one.fix.verification["summary"].endswith("to compare with: no time was left for it")


def test_what_the_time_did_not_suffice_for_is_not_begun_again_unasked(
    sick: tuple[Kept, Evidence], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, evidence = sick
    launched, given = slow(clock, kept.folder)
    monkeypatch.setattr(graphdoc.verify.trial, "launch_apart", launched)
    tried = several(kept, 6)[4:]
    try_out(kept, evidence, tried, Trying(seconds=5.0))
    assert given == [5.0]
    assert tried[1].fix.verification["summary"] == "not tried: the 5 s of --verify-time were over"
    said: list[str] = []
    again = several(kept, 6)[4:]
    try_out(kept, evidence, again, Trying(seconds=5.0, announce=said.append))
    assert said == [] and given == [5.0]
    assert [c.fix.verification["summary"] for c in again] == [c.fix.verification["summary"] for c in tried]
    try_out(kept, evidence, several(kept, 6)[4:], Trying(seconds=9.0, announce=said.append))
    assert len(said) == 1 and given[1] == 9.0, "more time is another question"


class Late:
    """What stands for the shared import of torch, and takes longer than the run may."""

    def __init__(self, clock: Any) -> None:
        self.clock = clock

    def start(self, *given: Any) -> None:
        self.clock.late = 1000.0


def test_the_import_of_torch_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    class Real:
        late = 0.0
        sleep = staticmethod(time.sleep)

        def monotonic(self) -> float:
            return time.monotonic() + self.late

    clock = Real()
    monkeypatch.setattr(graphdoc.launch.isolation.apart, "time", clock)
    (tmp_path / "long.py").write_text("import time\ntime.sleep(3)\n")
    out = tmp_path / "out"
    out.mkdir()
    request = Request(["long.py"], cwd=str(tmp_path), mode="verify:1:1", timeout=500.0)
    ended = launch_apart(request, out, Stop(), asked=True, forks=Late(clock))  # type: ignore[arg-type]
    assert ended.timed_out
