"""Nothing of a run goes on when graphdoc, or the launcher of its ranks, is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the end of a parent")

WAITS = "import time\nopen('ready', 'w').write(str(__import__('os').getpid()))\ntime.sleep(120)\n"
# What torchrun is to a rank: a session of its own, and a variable that names the run.
AGENT = """
import os, subprocess, sys, time
env = dict(os.environ, TORCHELASTIC_RUN_ID="x")
subprocess.Popen([sys.executable, "rank.py"], env=env, start_new_session=True)
subprocess.Popen([sys.executable, "other.py"], start_new_session=True)
time.sleep(120)
"""


def wait_for(path: Path) -> int:
    end = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)
    return int(path.read_text())


def gone(pid: int) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


@linux
def test_a_killed_parent_takes_the_program_with_it(pair: Any) -> None:
    pair.write("train.py", WAITS)
    parent = pair.start(pair.observed("train.py"))
    pid = wait_for(pair.folder / "ready")
    parent.kill()
    parent.wait()
    assert gone(pid)


@linux
def test_ranks_end_with_their_launcher_and_other_children_do_not(pair: Any) -> None:
    pair.write("agent.py", AGENT)
    pair.write("rank.py", WAITS.replace("ready", "rank"))
    pair.write("other.py", WAITS.replace("ready", "other"))
    parent = pair.start(pair.observed(sys.executable, "agent.py", kind="command"))
    rank, other = wait_for(pair.folder / "rank"), wait_for(pair.folder / "other")
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent.pid)], capture_output=True, check=True)
    os.kill(int(listing.stdout), signal.SIGKILL)
    parent.wait(60)
    try:
        assert gone(rank)
        assert not Path(f"/proc/{other}/stat").read_text().count(") Z ")
    finally:
        os.kill(other, signal.SIGKILL)
