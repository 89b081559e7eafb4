"""Folders that last no longer than their process: what a killed one leaves is swept away, and nothing else ever is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from marks import BOTH, kill_when

from graphdoc.launch.folders import LOCK
from graphdoc.launch.isolation.apart import SWITCH
from graphdoc.launch.scratch import make_scratch, remove_scratch, sweep

HOLDS = "from graphdoc.launch.scratch import make_scratch\nprint(make_scratch(), flush=True)\ninput()\n"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def start() -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a folder of its own, and that folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_last_one_takes_all_with_it(temporary: Path) -> None:
    first, second = make_scratch(), make_scratch()
    assert first.parent == second.parent and first.stat().st_mode & 0o777 == 0o700
    (first / "file").write_text("x")
    remove_scratch(first)
    assert second.is_dir() and not first.exists()
    remove_scratch(second)
    assert os.listdir(temporary) == []


def test_what_a_killed_process_has_left_is_swept_away(temporary: Path) -> None:
    process, folder = start()
    (folder / "copy").write_text("of a file of the user's")
    (folder / "link").symlink_to(temporary)
    sweep()
    assert (folder / "copy").exists()  # it lives
    process.kill()
    process.communicate()
    sweep()
    assert os.listdir(temporary) == []


def test_a_process_that_was_killed_meanwhile_is_found_by_the_next_that_needs_a_folder(temporary: Path) -> None:
    process, folder = start()
    process.kill()
    process.communicate()
    remove_scratch(make_scratch())
    assert not folder.exists() and os.listdir(temporary) == []


def test_nobody_elses_folder_is_touched(temporary: Path, tmp_path: Path) -> None:
    process, folder = start()
    process.kill()
    process.communicate()
    stolen = (folder.parent / LOCK).read_bytes()
    theirs = temporary / "graphdoc-theirs"
    theirs.mkdir()
    (theirs / LOCK).write_bytes(stolen)  # the seal is of another place
    for name, text in (("graphdoc-notes", None), ("graphdoc-empty", ""), ("graphdoc-zeros", "0" * 64)):
        (temporary / name).mkdir()
        (temporary / name / "results.csv").write_text("1,2\n")
        if text is not None:
            (temporary / name / LOCK).write_text(text)
    outside = tmp_path / "outside"
    folder.parent.rename(outside)
    (outside / "results.csv").write_text("1,2\n")
    folder.parent.symlink_to(outside)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    sweep()
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    assert folder.parent.is_symlink()


TRIES = """
import sys
from dataclasses import replace
from pathlib import Path
from graphdoc.launch import Request
from graphdoc.launch.isolation import Stop, launch_apart
from graphdoc.launch.scratch import make_scratch
out = make_scratch()
ready = str(out / "ready")
Path(sys.argv[1]).write_text(ready)
launch_apart(Request(["train.py", ready], cwd=sys.argv[2], timeout=60), out, Stop())
"""
PROGRAM = """
import sys, time
open("metrics.csv", "a").write("3,0.1\\n")
open(sys.argv[1], "w").write("x")
time.sleep(60)
"""


@pytest.mark.parametrize("way", BOTH)
def test_nothing_stays_of_a_trial_whose_starter_was_killed(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv(SWITCH, way)
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM)
    (project / "metrics.csv").write_text("step,loss\n")
    told = tmp_path / "told"
    parent = subprocess.Popen([sys.executable, "-c", TRIES, str(told), str(project)])
    end = time.monotonic() + 30
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < end
        time.sleep(0.01)
    kill_when(Path(told.read_text()), parent, str(project), seconds=30)
    assert os.listdir(temporary) != []
    sweep()
    assert os.listdir(temporary) == []
    assert (project / "metrics.csv").read_text() == "step,loss\n"
