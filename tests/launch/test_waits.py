"""Time that a run waits for a processor is not its own; time that it sleeps is."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import pytest

from graphdoc.launch import Request
from graphdoc.launch.isolation import Stop, launch_apart
from graphdoc.launch.isolation.apart import MOST, Waits, patience

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not tell")


def _work() -> None:
    while True:
        pass


def test_processes_that_share_a_processor_wait_for_it_up_to_a_bound() -> None:
    several = [multiprocessing.get_context("spawn").Process(target=_work, daemon=True) for _ in range(2)]
    for one in several:
        one.start()
    try:
        for one in several:
            assert one.pid is not None
            os.sched_setaffinity(one.pid, {min(os.sched_getaffinity(0))})
        waits, none = Waits(os.getpid(), 0.1), Waits(os.getpid(), 0.0)
        while not waits.look():
            pass
        while waits.look() < 0.1:
            pass
        assert waits.seconds == 0.1 and none.look() == 0.0
    finally:
        for one in several:
            one.kill()
            one.join()


def test_a_machine_with_free_processors_is_given_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    processors = len(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "getloadavg", lambda: (processors + 0.5, 0.0, 0.0))
    assert patience(20.0) == 20.0 * MOST
    monkeypatch.setattr(os, "getloadavg", lambda: (processors / 2, 0.0, 0.0))
    assert patience(20.0) == 0.0


def test_a_program_that_sleeps_is_ended_in_its_time(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(9)\n")
    request = Request(["train.py"], cwd=str(tmp_path), timeout=2.0, patience=1e6)
    (tmp_path / "out").mkdir()
    ended = launch_apart(request, tmp_path / "out", Stop(), asked=True)
    assert ended.timed_out and ended.waited < 1e6, sys.platform
