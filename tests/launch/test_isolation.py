"""A run that graphdoc starts by itself leaves no mark: files, services, processes. Without torch; each way in turn."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from marks import BOTH, below, have_namespaces, interrupted_when, kill_when, state

from graphdoc.errors import Interrupted
from graphdoc.launch import Ended, Request
from graphdoc.launch.folders import LOCK
from graphdoc.launch.isolation import CannotIsolate, Stop, launch_apart
from graphdoc.launch.isolation.apart import SWITCH, _left

DEEDS = """
import os, shutil, sqlite3, sys, tempfile, pathlib
outside, home = sys.argv[1], os.path.expanduser("~")
number = len([d for d in os.listdir("runs") if d.startswith("run")])
shutil.rmtree("out")
os.makedirs("out/plots")
os.mkdir(f"runs/run{number}")
with open(f"runs/run{number}/log", "w") as f:
    f.write("here")
assert os.listdir("out") == ["plots"], os.listdir("out")
assert sorted(os.listdir("runs")) == ["run0", "run1", "run2"]
with open("metrics.csv", "a") as f:
    f.write("3,0.1\\n")
assert pathlib.Path("metrics.csv").read_text() == "step,loss\\n1,0.5\\n2,0.3\\n3,0.1\\n"
base = sqlite3.connect("results.db")
base.execute("insert into r values (2)")
base.commit()
assert base.execute("select count(*) from r").fetchone() == (2,)
base.close()
count = int(open("counter").read()) + 1
open("counter", "w").write(str(count))
assert open("counter").read() == "8"
os.rename("old.txt", "new.txt")
assert os.path.exists("new.txt") and not os.path.exists("old.txt")
assert pathlib.Path("new.txt").read_text() == "old"
os.remove("gone.txt")
assert not pathlib.Path("gone.txt").exists() and "gone.txt" not in os.listdir(".")
os.chmod("mode.txt", 0o600)
os.utime("mode.txt", (1, 1))
os.truncate("mode.txt", 2)
assert open("mode.txt").read() == "mo"
os.symlink("counter", "link")
assert open("link").read() == "8"
with open("through", "w") as f:
    f.write("through a link of the user's")
open(os.path.join(outside, "elsewhere"), "w").write("x")
open(os.path.join(home, "elsewhere"), "w").write("x")
os.replace(os.path.join(outside, "swap"), os.path.join(outside, "swapped"))
handle = os.open("metrics.csv", os.O_RDWR)
os.pwrite(handle, b"STEP", 0)
os.close(handle)
with tempfile.TemporaryDirectory() as d:
    open(os.path.join(d, "f"), "w").write("x")
print("did it all")
"""


def project(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A folder with results in it, one outside, and a home."""
    folder, outside, home = tmp_path / "project", tmp_path / "outside", tmp_path / "home"
    for made in (folder / "out", folder / "runs" / "run0", folder / "runs" / "run1", outside, home):
        made.mkdir(parents=True)
    (folder / "out" / "notes.txt").write_text("put there by the user")
    (folder / "metrics.csv").write_text("step,loss\n1,0.5\n2,0.3\n")
    (folder / "counter").write_text("7")
    for name in ("old", "gone", "mode"):
        (folder / f"{name}.txt").write_text(name)
    (outside / "swap").write_text("swap")
    (outside / "target").write_text("target")
    (folder / "through").symlink_to(outside / "target")
    base = sqlite3.connect(folder / "results.db")
    base.execute("create table r (x)")
    base.execute("insert into r values (1)")
    base.commit()
    base.close()
    return folder, outside, home


def apart(tmp_path: Path, request: Request, stop: Stop | None = None, **more: Any) -> Ended:
    out = tmp_path / f"evidence-of-{time.monotonic_ns()}"
    out.mkdir()
    return launch_apart(request, out, stop or Stop(), **more)


@pytest.mark.parametrize("way", BOTH)
def test_every_file_is_as_it_was(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv(SWITCH, way)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))  # where graphdoc keeps its key
    folder, outside, home = project(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    (folder / "train.py").write_text(DEEDS)
    before = state(tmp_path)
    ended = apart(tmp_path, Request(["train.py", str(outside)], cwd=str(folder), timeout=60))
    assert ended.printed.strip() == "did it all" and ended.exit_status == 0
    after = state(tmp_path)
    assert {k: v for k, v in after.items() if not k.startswith("evidence-of-")} == before


@pytest.mark.parametrize("way", BOTH)
def test_what_the_keeper_is_told_to_keep_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "train.py").write_text(f"open({str(out / 'enough')!r}, 'w').write('x')\nimport time\ntime.sleep(60)\n")
    request = Request(["train.py"], cwd=str(tmp_path), timeout=60)
    ended = launch_apart(request, out, Stop(), enough=(out / "enough").exists)
    assert ended.stopped and ended.seconds < 30 and not ended.timed_out


@pytest.mark.parametrize("way", BOTH)
def test_services_get_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        (tmp_path / "train.py").write_text(
            "import socket\n"
            "try:\n"
            f"    socket.create_connection(('127.0.0.1', {port}), 5)\n"
            "    print('reached')\n"
            "except OSError:\n"
            "    print('refused')\n"
            "own = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(own.getsockname(), 5).sendall(b'x')\n"
            "print(own.accept()[0].recv(1))\n"
        )
        ended = apart(tmp_path, Request(["train.py"], cwd=str(tmp_path), timeout=60))
    assert ended.printed.split() == ["refused", "b'x'"]


@pytest.mark.parametrize("way", BOTH)
def test_trackers_are_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    monkeypatch.setenv("WANDB_MODE", "online")
    (tmp_path / "train.py").write_text(
        "import os\nprint(*(os.environ[n] for n in ('WANDB_MODE', 'MLFLOW_TRACKING_URI', 'MLFLOW_ALLOW_FILE_STORE')))\n"
    )
    ended = apart(tmp_path, Request(["train.py"], cwd=str(tmp_path), timeout=60))
    mode, uri, allowed = ended.printed.split()
    assert (
        mode == "disabled"
        and allowed == "true"
        and uri.startswith("file:///")
        and not Path(uri.removeprefix("file://")).exists()
    )


LEAVES = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True)
open(sys.argv[1], "w").write("x")
time.sleep(120)
"""


@pytest.mark.parametrize("way", BOTH)
def test_a_signal_ends_it_at_once_with_all_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "train.py").write_text(LEAVES)
    request = Request(["train.py", str(out / "ready")], cwd=str(tmp_path), timeout=60)
    with interrupted_when(out / "ready") as stop, pytest.raises(Interrupted):
        launch_apart(request, out, stop)
    assert below(str(out)) == []


@pytest.mark.parametrize("way", BOTH)
def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv(SWITCH, way)
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "train.py").write_text(LEAVES)
    driver = (
        "import sys\nfrom pathlib import Path\nfrom graphdoc.launch import Request\n"
        "from graphdoc.launch.isolation import Stop, launch_apart\n"
        "out = Path(sys.argv[1])\n"
        "launch_apart(Request(['train.py', str(out / 'ready')], cwd=sys.argv[2], timeout=60), out, Stop())\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**os.environ, "TMPDIR": str(temporary)}
    parent = subprocess.Popen([sys.executable, "-c", driver, str(out), str(tmp_path)], env=env)
    kill_when(out / "ready", parent, str(out), seconds=30)
    # What was copied of the user's files is gone as well; memory is so by itself, and the mark goes with a sweep.
    assert not [file for file in temporary.rglob("*") if file.is_file() and file.name != LOCK]


@pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")
def test_the_program_cannot_undo_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "namespaces")
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "train.py").write_text(
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        "for place in (b'/', b'/tmp', b'.'):\n    libc.umount2(place, 2)\n"
        "libc.unshare(0x10020000)\n"
        "for place in (b'/', b'/tmp', b'.'):\n    libc.umount2(place, 2)\n"
        "libc.mount(None, b'/', None, 32 | 4096, None)\n"
        f"open({str(tmp_path / 'kept')!r}, 'w').write('lost')\n"
    )
    apart(tmp_path, Request(["train.py"], cwd=str(tmp_path), timeout=60))
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.skipif(not have_namespaces(), reason="no namespaces here")
def test_what_is_written_from_other_programs_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "namespaces")
    (tmp_path / "kept").write_text("kept")
    request = Request(["sh", "-c", "rm kept; echo new > made; ls"], "command", cwd=str(tmp_path), timeout=60)
    ended = apart(tmp_path, request)
    assert "made" in ended.printed and "kept" not in ended.printed
    assert (tmp_path / "kept").read_text() == "kept" and not (tmp_path / "made").exists()


def test_where_nothing_holds_nothing_is_run_without_being_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("open('made', 'w')\n")
    request = Request(["train.py"], cwd=str(tmp_path), timeout=60)
    monkeypatch.setenv(SWITCH, "none")
    with pytest.raises(CannotIsolate, match="its writes cannot be kept from your files"):
        apart(tmp_path, request)
    assert not (tmp_path / "made").exists()
    monkeypatch.setenv(SWITCH, "layer")
    with pytest.raises(CannotIsolate):
        apart(tmp_path, Request(["sh", "-c", "echo > made"], "command", cwd=str(tmp_path)))
    assert not (tmp_path / "made").exists()
    monkeypatch.setenv(SWITCH, "none")
    apart(tmp_path, request, asked=True)
    assert (tmp_path / "made").exists()


def test_what_a_process_is_about_to_write_is_not_read_yet(tmp_path: Path) -> None:
    """A program that is ended says why in a file, which is there before the words are."""
    assert _left(tmp_path / "uncovered") == ""
    (tmp_path / "uncovered").touch()
    assert _left(tmp_path / "uncovered") == ""
    (tmp_path / "uncovered").write_text("starts a shell\n")
    assert _left(tmp_path / "uncovered") == "starts a shell\n"
