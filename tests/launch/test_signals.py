"""Signals reach the program once, and the parent ends as the program did."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graphdoc.launch import Request, launch


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A shell starts what runs in the background with interrupts ignored, and so would be all that is started here."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


COUNTS = """
import os, signal, sys, time
got = []
def take(number, frame):
    got.append(number)
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    if signal.getsignal(s) is not signal.SIG_IGN:
        signal.signal(s, take)
open("ready", "w").close()
end = time.monotonic() + 20
while not got and time.monotonic() < end:
    time.sleep(0.01)
time.sleep(0.3)  # a second one would come now
print(*got, flush=True)
sys.exit(7)
"""


def wait_for(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def read_all(terminal: int) -> bytes:
    """Everything written to a terminal until its last user is gone: one read may end in the middle of a line."""
    seen = b""
    while True:
        try:
            part = os.read(terminal, 1000)
        except OSError:  # EIO: Linux's way to say that nobody has the other side open
            return seen
        if not part:
            return seen
        seen += part


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signal_to_the_parent_is_passed_on_once(pair: Any, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("ignored by whoever started the tests (nohup), and so by every program below")
    pair.write("train.py", COUNTS)
    process = pair.start(pair.observed("train.py"))
    wait_for(pair.folder / "ready")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert out.split() == [str(int(number)).encode()], err
    assert process.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_death_by_a_signal_is_the_parents_too(pair: Any, number: signal.Signals) -> None:
    pair.write("train.py", "import time\nopen('ready', 'w').close()\ntime.sleep(60)\n")
    process = pair.start(pair.observed("train.py"))
    wait_for(pair.folder / "ready")
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -number, err
    assert (b"KeyboardInterrupt" in err) == (number == signal.SIGINT)
    assert b"graphdoc" not in err


def test_control_c_on_a_terminal_arrives_once(pair: Any) -> None:
    pair.write("train.py", COUNTS)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(pair.folder)
        os.execve(sys.executable, pair.observed("train.py"), pair.env)
    wait_for(pair.folder / "ready")
    os.write(terminal, b"\x03")
    seen = read_all(terminal)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 7, seen
    assert seen.replace(b"^C", b"").split() == [b"2"], seen


def test_the_terminal_is_the_programs(pair: Any) -> None:
    pair.write("train.py", "import sys\nprint(*[s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)])\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(pair.folder)
        os.execve(sys.executable, pair.observed("train.py"), pair.env)
    seen = read_all(terminal)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert seen == b"True True True\r\n"


def test_an_ignored_signal_stays_ignored(pair: Any) -> None:
    """``nohup graphdoc run train.py``."""
    pair.write("train.py", "import signal\nprint(signal.getsignal(signal.SIGHUP).name)\n")
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *pair.observed("train.py")]
    done = pair.run(command)
    assert done.stdout == b"SIG_IGN\n", done.stderr


def test_no_signal_is_blocked_in_the_program(pair: Any) -> None:
    pair.write("train.py", "import signal\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n")
    plain, observed = pair.both("train.py")
    assert observed.stdout == plain.stdout == b"set()\n"


def test_limit_ends_everything_that_a_quiet_run_started(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid))\nchild.wait()\n"
    )
    began = time.monotonic()
    ended = launch(Request([str(script)], cwd=str(tmp_path), timeout=1.5, quiet=True), tmp_path)
    assert ended.timed_out and ended.signal == signal.SIGKILL and ended.exit_status == 137
    assert 1.4 < ended.seconds < 10 and time.monotonic() - began < 10
    assert_gone(int((tmp_path / "pid").read_text()))


def test_what_a_quiet_run_left_running_ends_with_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid))\nsys.stdin.read()\nprint('never seen')\n"
    )
    ended = launch(Request([str(script)], cwd=str(tmp_path), quiet=True), tmp_path)
    assert ended.exit_status == 0 and not ended.timed_out
    assert_gone(int((tmp_path / "pid").read_text()))


def assert_gone(pid: int) -> None:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout.strip()
        if not state or state.startswith(b"Z"):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
