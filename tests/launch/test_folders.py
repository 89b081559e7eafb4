"""Where runs are kept: only what graphdoc has made is ever cleared away, and nothing that is still going on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.launch import Request, launch
from graphdoc.launch.folders import KEPT_RUNS, LOCK, PLACE, new_run, release, temporary_run
from graphdoc.launch.keep import keep


def ended_run(cwd: Path) -> Path:
    folder = new_run(cwd)
    release(folder)
    return folder


def many_runs(cwd: Path) -> list[Path]:
    return [ended_run(cwd) for _ in range(KEPT_RUNS + 2)]


def test_a_link_in_its_place_is_left_alone(tmp_path: Path) -> None:
    target, cwd = tmp_path / "data", tmp_path / "project"
    cwd.mkdir()
    for number in range(15):
        (target / f"2020010{number % 10}T000000.000000-{number}").mkdir(parents=True)
    (cwd / PLACE).symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        new_run(cwd)
    assert len(list(target.iterdir())) == 15 and not (target / ".gitignore").exists()


def test_what_others_have_put_there_stays(tmp_path: Path) -> None:
    place = tmp_path / PLACE
    outside = tmp_path / "outside"
    strangers = [place / f"20200101T00000{n}.000000-{n}" for n in range(4)]
    for folder in strangers[:3]:
        folder.mkdir(parents=True)
        (folder / "results.csv").write_text("1,2\n")
    (strangers[1] / LOCK).write_text("0" * 64)
    first = ended_run(tmp_path)
    outside.mkdir()
    (outside / LOCK).write_bytes((first / LOCK).read_bytes())
    strangers[3].symlink_to(outside)
    (place / "20200101-notes").mkdir()
    runs = [first, *many_runs(tmp_path)]
    assert all((folder / "results.csv").exists() for folder in strangers[:3])
    assert (outside / LOCK).exists() and strangers[3].is_symlink() and (place / "20200101-notes").exists()
    assert [r for r in runs if r.exists()] == runs[-KEPT_RUNS:]


def test_a_link_inside_a_run_is_not_followed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").write_text("")
    first = ended_run(tmp_path)
    (first / "link").symlink_to(data)
    many_runs(tmp_path)
    assert not first.exists() and (data / "a").exists()


def test_a_run_that_goes_on_is_kept(tmp_path: Path) -> None:
    going = new_run(tmp_path)
    runs = many_runs(tmp_path)
    assert going.is_dir() and not runs[0].exists()
    release(going)
    ended_run(tmp_path)
    assert not going.exists()


@pytest.mark.slow
def test_quick_runs_beside_a_long_one_leave_its_evidence(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("print('up', flush=True)\ninput()\n")
    (tmp_path / "quick.py").write_text("")
    words = [sys.executable, "-m", "graphdoc", "run"]
    long = subprocess.Popen(
        [*words, "long.py"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert long.stdout is not None and long.stdout.readline() == b"up\n"
    (folder,) = (f for f in (tmp_path / PLACE).iterdir() if f.is_dir())
    for _ in range(KEPT_RUNS + 1):
        subprocess.run([*words, "quick.py"], cwd=tmp_path, check=True, capture_output=True)
    _, err = long.communicate(b"\n", timeout=60)
    assert (long.returncode, err) == (0, b"")
    assert (folder / "run.json").exists()


def test_files_are_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = new_run(tmp_path)
        script = tmp_path / "train.py"
        script.write_text(
            "import torch\nw = torch.ones(1, requires_grad=True)\nl = w * w\nl.backward()\nl.backward()\n"
        )
        request = Request([str(script)], cwd=str(tmp_path), quiet=True)
        keep(folder, request, launch(request, folder)).save()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700 and folder.parent.stat().st_mode & 0o777 == 0o700
    found = {f.name.partition("-")[0]: f.stat().st_mode & 0o777 for f in folder.iterdir()}
    assert found == {"evidence": 0o600, "process": 0o600, "run.json": 0o600, LOCK: 0o600}
    assert (folder.parent / "last.json").stat().st_mode & 0o777 == 0o600


CRASH = """
import os, shutil, torch
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
{before}
loss.backward()
"""


@pytest.mark.slow
def test_a_program_that_deletes_the_folder_is_diagnosed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CRASH.format(before=f"shutil.rmtree({PLACE!r})"))
    done = graphdoc(tmp_path, "run", "--no-rerun", "train.py")
    assert done.returncode == 1 and "error[GD" in done.stderr, done.stderr
    (line,) = (text for text in done.stderr.splitlines() if "what was recorded is in" in text)
    place = Path(line.partition("is in ")[2].split()[0])
    try:
        again = graphdoc(tmp_path, "fix", str(place), "--diff", "--no-verify")
        assert again.returncode == 3 and "not recorded here" not in again.stderr, again.stderr
    finally:
        subprocess.run(["rm", "-r", str(place)], check=True)


def unshared() -> bool:
    try:
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not unshared(), reason="a small disk of one's own needs a mount namespace")
@pytest.mark.parametrize(
    "left",
    [
        pytest.param(0, id="nothing"),
        pytest.param(200_000, id="little"),
        pytest.param(9_000_000, id="filled-by-the-program"),
    ],
)
def test_a_nearly_full_disk_keeps_the_diagnosis(tmp_path: Path, left: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    fill = "f = open('big', 'wb')\ntry:\n    f.write(bytes(99_000_000))\n    f.flush()\nexcept OSError:\n    pass"
    script = tmp_path / "train.py"
    script.write_text(CRASH.format(before=textwrap.indent(fill, "")))
    steps = f"""
        mount -t tmpfs -o size=12m none {disk} && cp {script} {disk} && cd {disk} || exit 99
        head -c $((12000000 - {left})) /dev/zero > ballast
        {sys.executable} -m graphdoc run --no-rerun train.py; echo "status $?" >&2
    """
    done = subprocess.run(["unshare", "-rm", "sh", "-c", steps], capture_output=True, text=True, timeout=120)
    assert "status 1" in done.stderr and "error[GD" in done.stderr, done.stderr
    place = done.stderr.partition("what was recorded is in ")[2].split()
    assert place, done.stderr
    subprocess.run(["rm", "-r", place[0]], check=True)


def test_without_room_for_temporary_files_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no memory that looks like a folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    folder = temporary_run()
    assert folder.parent == Path("/dev/shm")
    folder.rmdir()
