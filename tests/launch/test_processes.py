"""A run that graphdoc starts by itself signals no process of the user's, whatever keeps it apart; its own it may."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from marks import have_namespaces

from graphdoc.launch import Ended, Request
from graphdoc.launch.isolation import CannotIsolate, Stop, apart, launch_apart
from graphdoc.launch.isolation.apart import SWITCH, ways
from graphdoc.launch.isolation.inside import processes
from graphdoc.launch.isolation.namespaces import can_hold_signals

needs_namespaces = pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")
needs_kernel = pytest.mark.skipif(not can_hold_signals(), reason="this kernel cannot keep signals within a run")
WAYS = [
    pytest.param("namespaces", marks=needs_namespaces),
    pytest.param("namespaces without process numbers", marks=[needs_namespaces, needs_kernel]),
    "layer",
    "none",
]
HEAD = """\
import multiprocessing, os, signal, subprocess, sys, time
side, number = int(sys.argv[1]), signal.SIGTERM
"""
OTHERS = {
    "kill": "os.kill(side, number)",
    "look for it": "os.kill(side, 0)",
    "group": "os.killpg(side, number)",
    "group by its negative": "os.kill(-side, number)",
    "handle": "signal.pidfd_send_signal(os.pidfd_open(side), number)",
    "folder for a handle": "signal.pidfd_send_signal(os.open(f'/proc/{side}', os.O_RDONLY), number)",
    "the module in C": "import posix; posix.kill(side, number)",
    "priority": "os.setpriority(os.PRIO_PROCESS, side, 19)",
    "priority of the user": "os.setpriority(os.PRIO_USER, 4242, 19)",
    "processors": "os.sched_setaffinity(side, {0})",
    "limits": "import resource; resource.prlimit(side, resource.RLIMIT_CORE, (0, 0))",
    "owner of a file": "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, side); assert 0",
}
OWN = """
if __name__ == "__main__":
    os.kill(os.getpid(), 0)
    os.kill(0, 0)
    for session in (False, True):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=session)
        os.sched_setaffinity(child.pid, os.sched_getaffinity(0))
        (os.killpg if session else os.kill)(child.pid, number)
        assert child.wait() == -number
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=time.sleep, args=(60,))
        child.start()
        signal.pidfd_send_signal(os.pidfd_open(child.pid), number)
        child.join()
        assert child.exitcode == -number
    print("did it all")
"""


@pytest.fixture
def side() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the user's, with a group of its own; any signal ends it."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, _, less = request.param.partition(" ")
    monkeypatch.setenv(SWITCH, name)
    monkeypatch.setattr(apart, "_known", {"namespacesTrue": False} if less else {})
    return str(request.param)


def run(folder: Path, text: str, side: subprocess.Popen[bytes], asked: bool) -> Ended:
    (folder / "train.py").write_text(HEAD + text)
    out = folder / "out"
    out.mkdir()
    request = Request(["train.py", str(side.pid)], cwd=str(folder), timeout=120)
    return launch_apart(request, out, Stop(), asked=asked)


def test_others_are_out_of_reach(tmp_path: Path, side: subprocess.Popen[bytes], way: str) -> None:
    tries = "".join(f"try:\n    {deed}\n    print({name!r})\nexcept OSError: pass\n" for name, deed in OTHERS.items())
    ended = run(tmp_path, tries + "print('the end')\n", side, way == "none")
    assert ended.printed == "the end\n" and not ended.exit_status
    assert side.poll() is None and os.getpriority(os.PRIO_PROCESS, side.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.sched_getaffinity(side.pid) == os.sched_getaffinity(0)


def test_its_own_are_not(tmp_path: Path, side: subprocess.Popen[bytes], way: str) -> None:
    ended = run(tmp_path, OWN, side, way == "none")
    assert ended.printed == "did it all\n", ended.printed


@pytest.mark.parametrize(
    "deed",
    [
        "subprocess.run(['sh', '-c', f'kill {side}'])",
        "subprocess.run([sys.executable, '-c', f'import os; os.kill({side}, 15)'], env={})",
        "import ctypes; ctypes.CDLL(None).kill(side, 15)",
    ],
    ids=["program", "deaf Python", "C"],
)
@needs_kernel
def test_nor_are_they_by_what_is_no_python(tmp_path: Path, side: subprocess.Popen[bytes], way: str, deed: str) -> None:
    ended = run(tmp_path, deed + "\nprint('the end')\n", side, way == "none")
    assert side.poll() is None
    assert bool(ended.refused) is (way == "layer") and ("the end" in ended.printed) is (way != "layer")


def test_a_system_without_proc_is_asked_by_ps(monkeypatch: pytest.MonkeyPatch, side: subprocess.Popen[bytes]) -> None:
    monkeypatch.setattr(processes, "_PROC", "/nowhere")
    ours = processes.Processes(os.getpid())
    assert ours.own(side.pid) and ours.own(os.getpid()) and not ours.own(os.getppid()) and not ours.own(1)


STARTS = "import subprocess\nopen('early', 'w')\nsubprocess.run(['sh', '-c', 'echo > made'])\n"
CALLS_C = "import ctypes\nopen('early', 'w')\nctypes.CDLL(None).creat(b'made', 0o600)\n"


@pytest.mark.parametrize("text", [STARTS, CALLS_C], ids=["starts another program", "calls C by ctypes"])
def test_what_a_layer_ends_is_run_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: subprocess.Popen[bytes], text: str
) -> None:
    monkeypatch.setenv(SWITCH, "layer")
    ended = run(tmp_path, text, side, False)
    assert "which cannot be kept from your files" in ended.refused and not (tmp_path / "made").exists()
    (tmp_path / "out" / "uncovered").unlink()
    (tmp_path / "out").rename(tmp_path / "before")
    ended = run(tmp_path, text, side, True)
    assert not ended.refused and ended.open and not ended.exit_status and (tmp_path / "made").exists()


def test_without_a_hook_there_is_no_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: subprocess.Popen[bytes]
) -> None:
    monkeypatch.setenv(SWITCH, "layer")
    monkeypatch.setenv("GRAPHDOC_DISABLE", "1")
    with pytest.raises(CannotIsolate):
        run(tmp_path, "open('made', 'w')", side, False)
    assert not (tmp_path / "made").exists() and ways(Request(["train.py"])) == []
