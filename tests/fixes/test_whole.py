"""A patch to several files: all of it or nothing, whatever happens between two of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphdoc.errors import UsageError
from graphdoc.fixes.apply import APPLIED, UNDO, apply_whole, recover, take_back
from graphdoc.launch.folders import PLACE, UNDER_WAY

KILLED = """
import os, signal, sys
from pathlib import Path
from graphdoc.fixes.apply import apply_whole
real, done = os.replace, []
def replace(a, b):
    real(a, b)
    if Path(b).suffix == ".py":
        done.append(b)
        if len(done) == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
os.replace = replace
here = Path.cwd()
apply_whole({here / "a.py": b"new a\\n", here / "b.py": b"new b\\n"}, here, here)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("old a\n")
    (tmp_path / "b.py").write_text("old b\n")
    return tmp_path


def texts(folder: Path) -> list[str]:
    return [(folder / name).read_text() for name in ("a.py", "b.py")]


def killed(project: Path, after: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(after)], cwd=project, check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("command", ["fix", "run"])
def test_killed_between_two_files_it_is_taken_back(project: Path, command: str) -> None:
    killed(project, 1)
    assert texts(project) == ["new a\n", "old b\n"]
    (project / "train.py").write_text("print(open('a.py').read())\n")
    if command == "run":
        words = [sys.executable, "-m", "graphdoc", "run", "train.py"]
        done = subprocess.run(words, cwd=project, capture_output=True, text=True, check=True)
        assert done.stdout == "old a\n\n" and "a.py is as it was before" in done.stderr
    else:
        assert "a.py is as it was before" in recover(project)
    assert texts(project) == ["old a\n", "old b\n"]
    assert not (project / PLACE / UNDER_WAY).exists() and recover(project) == ""
    assert [f.name for f in project.iterdir() if f.name.startswith((".a", ".b"))] == []


def test_killed_behind_the_last_file_it_is_done_and_can_be_undone(project: Path) -> None:
    killed(project, 2)
    assert recover(project) == "" and texts(project) == ["new a\n", "new b\n"]
    subprocess.run(["git", "apply", f"{PLACE}/undo.patch"], cwd=project, check=True)
    assert texts(project) == ["old a\n", "old b\n"]


def test_what_was_edited_since_is_left_alone(project: Path) -> None:
    killed(project, 1)
    (project / "a.py").write_text("by hand\n")
    assert recover(project) == "" and texts(project) == ["by hand\n", "old b\n"]


def applied(project: Path) -> None:
    apply_whole({project / "a.py": b"new a\n", project / "b.py": b"new b\n"}, project, project)


def test_the_last_patch_is_taken_back_whole(project: Path) -> None:
    applied(project)
    assert take_back(project) == [project / "a.py", project / "b.py"]
    assert texts(project) == ["old a\n", "old b\n"]
    assert not [name for name in (APPLIED, UNDO, UNDER_WAY) if (project / PLACE / name).exists()]


def test_where_one_file_was_edited_no_other_is_taken_back(project: Path) -> None:
    applied(project)
    (project / "b.py").write_text("by hand\n")
    with pytest.raises(UsageError, match=r"b\.py has changed since the fix"):
        take_back(project)
    assert texts(project) == ["new a\n", "by hand\n"]


def test_a_record_of_somebody_else_is_not_believed(project: Path) -> None:
    applied(project)
    record = project / PLACE / APPLIED
    record.write_text(record.read_text().replace("a.py", "c.py"))
    (project / "c.py").write_text("new a\n")
    with pytest.raises(UsageError, match="no fix is applied here"):
        take_back(project)
    assert (project / "c.py").read_text() == "new a\n"


def test_taking_back_is_interrupted_between_two_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    applied(project)
    interrupt_at_b(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        take_back(project)
    monkeypatch.undo()
    assert texts(project) == ["new a\n", "new b\n"] and recover(project) == ""
    take_back(project)
    assert texts(project) == ["old a\n", "old b\n"]


def interrupt_at_b(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def replace(a: Any, b: Any) -> None:
        if Path(b).name == "b.py":
            raise KeyboardInterrupt
        real(a, b)

    monkeypatch.setattr(os, "replace", replace)


def test_an_interrupt_between_two_files_takes_it_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at_b(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        apply_whole({project / "a.py": b"new\n", project / "b.py": b"new\n"}, project, project)
    monkeypatch.undo()
    assert texts(project) == ["old a\n", "old b\n"]
    assert sorted(f.name for f in project.iterdir()) == [PLACE, "a.py", "b.py"]


BEGUN = """
import os, signal
from pathlib import Path
from graphdoc.fixes.apply import apply_whole
noted = Path.cwd() / ".graphdoc" / "applying.json"
os.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL) if noted.exists() else None
apply_whole({{Path.cwd() / "a.py": b"new a\\n"}}, Path.cwd(), Path.cwd())
"""


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
def test_killed_before_its_only_file_it_leaves_nothing_beside_it(project: Path, call: str) -> None:
    theirs = project / ".a.py-notes"
    theirs.write_text("new a\n")
    mine = project / ".a.py-mine_own"  # as long as ours are
    mine.write_text("else\n")
    program = BEGUN.format(call=call)
    if call == "replace":  # the note is put in its place by it too
        program = program.replace("os.replace = lambda *_: ", "real = os.replace\nos.replace = lambda *a: ")
        program = program.replace("else None", "else real(*a)")
    done = subprocess.run([sys.executable, "-c", program], cwd=project, check=False)
    assert done.returncode == -signal.SIGKILL
    begun = [f for f in project.glob(".a.py-*") if f not in (theirs, mine)]
    assert len(begun) == 1
    assert recover(project) == "" and texts(project) == ["old a\n", "old b\n"]
    assert not begun[0].exists() and theirs.exists() and mine.exists()
