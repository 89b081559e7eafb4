"""What a program that graphdoc has started by itself, and ends before its end, still gets to do."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from marks import BOTH, below, have_namespaces

from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import Forks, Stop, launch_apart
from graphdoc.launch.isolation.apart import SWITCH

# What it writes into the run's own folder is seen outside in every way.
PROGRAM = """
import atexit, os, sys, time
def leave(name):
    with open(os.path.join(sys.argv[1], name), "w") as file:
        file.write("x")
atexit.register(leave, "atexit")
try:
    leave("ready")
    {waits}
finally:
    leave("finally")
    {ends}
"""


def left(
    folder: Path, waits: str, ends: str = "", forks: Forks | None = None, head: str = ""
) -> tuple[set[str], Ended]:
    """What such a program has left that is ended once it has begun."""
    out = folder / "out"
    out.mkdir()
    (folder / "train.py").write_text(head + PROGRAM.format(waits=waits, ends=ends or "pass"))
    request = Request(["train.py", str(out)], cwd=str(folder), timeout=60)
    enough: Callable[[], bool] = (out / "ready").exists
    asked = os.environ[SWITCH] == "none"
    ended = launch_apart(request, out, Stop(), enough=enough, asked=asked, forks=forks)
    assert forks is not None or below(str(out)) == []
    return {name for name in os.listdir(out) if name in ("ready", "finally", "atexit")}, ended


@pytest.mark.parametrize("way", BOTH)
def test_kept_apart_it_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    found, ended = left(tmp_path, "time.sleep(600)")
    assert found == {"ready"} and ended.stopped


@pytest.mark.slow
@pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")
def test_a_fork_of_the_shared_import_ends_at_once_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "namespaces")
    with Forks() as forks:
        found, ended = left(tmp_path, "time.sleep(600)", forks=forks, head="import torch\n")
        assert forks.runs == 1
    assert found == {"ready"} and ended.stopped


@pytest.mark.parametrize("disposition", [signal.SIG_DFL, signal.SIG_IGN])
def test_with_the_users_real_files_it_ends_as_on_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disposition: signal.Handlers
) -> None:
    monkeypatch.setenv(SWITCH, "none")
    before = signal.signal(signal.SIGINT, disposition)
    try:
        found, ended = left(tmp_path, "time.sleep(600)")
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == {"ready", "finally", "atexit"} and ended.stopped


@pytest.mark.parametrize("ends", ["time.sleep(600)", "\n    while True:\n        pass", "os.kill(os.getpid(), 19)"])
def test_but_nobody_waits_for_it_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    monkeypatch.setenv(SWITCH, "none")
    found, _ = left(tmp_path, "time.sleep(600)", ends)
    assert found == {"ready", "finally"}


@pytest.mark.parametrize("way", [*BOTH, "none"])
def test_one_that_comes_to_its_end_does_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "train.py").write_text(PROGRAM.format(waits="sys.exit(3)", ends="pass"))
    request = Request(["train.py", str(out)], cwd=str(tmp_path), timeout=60)
    ended = launch_apart(request, out, Stop(), asked=way == "none")
    assert {"ready", "finally", "atexit"} <= set(os.listdir(out)) and ended.exit_status == 3
