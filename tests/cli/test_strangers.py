"""A folder that came from a stranger: its evidence is read, its command is not run, and only the project is written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import graphdoc
from seen import observe

from graphdoc.evidence import Evidence, Frame, Process, Raised, Stale, Tensor

SCRIPT = """\
import torch

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""
VERSION = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [3]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead."
)


class Repository:
    """A folder as a stranger would hand it over, and the commands that its new owner types in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder / "clone", folder / "mark"
        self.folder.mkdir()
        self.state = folder / "state"
        (self.folder / "train.py").write_text(SCRIPT)

    def evidence(self, **changes: Any) -> Evidence:
        text = (self.folder / "train.py").read_text()
        made = Evidence(
            process=Process(pid=1, cwd=str(self.folder), argv=["train.py"]),
            raised=Raised("RuntimeError", VERSION, [Frame("train.py", 6, 1, 6, 16)]),
            stale=[Stale(1, "result", Tensor(), 0, 1)],
            sources={"train.py": text},
            hashes={"train.py": hashlib.sha256(text.encode()).hexdigest()},
        )
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def observed(self) -> Evidence:
        """What a run here has recorded; it leaves nothing in the folder."""
        seen = observe(self.folder, SCRIPT).evidence
        assert seen is not None
        for left in ("first", "second"):
            shutil.rmtree(self.folder / left, ignore_errors=True)
        return seen

    def plant(self, command: list[str], evidence: Evidence | None = None, **request: Any) -> Path:
        """A run that nobody has made: ``command`` leaves a mark if it is run."""
        run = self.folder / ".graphdoc" / "20260101T000000.000000-1"
        run.mkdir(parents=True)
        (evidence or self.evidence()).write(str(run / "evidence-1.json"))
        document = {
            "version": 1,
            "request": {"command": command, "kind": "command", "cwd": str(self.folder), "mode": "observe", **request},
            "outcome": {"exit_status": 1, "signal": None, "seconds": 1.0, "troubles": []},
            "rerun": True,
        }
        (run / "run.json").write_text(json.dumps(document))
        (run.parent / "last.json").write_text(json.dumps({"runs": run.name, **document}))
        return run

    def __call__(self, *words: str, cwd: Path | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
        return graphdoc(cwd or self.folder, *words, forked=True, XDG_STATE_HOME=str(self.state), **more)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.breadth(2)
@pytest.mark.parametrize("words", [["--diff"], ["--list", "--no-verify"], ["--list"], []])
def test_a_planted_command_is_not_run(repository: Repository, words: list[str]) -> None:
    repository.plant(["touch", str(repository.mark)])
    done = repository("fix", *words)
    assert not repository.mark.exists()
    assert done.returncode in (0, 1)
    assert f"--verify runs it: touch {repository.mark}" in done.stderr


def test_it_is_run_where_that_is_asked_for(repository: Repository) -> None:
    repository.plant(["sh", "-c", f"touch {repository.mark}; exit 7"])
    done = repository("fix", "--list", "--verify", "--report", "json:report.json")
    report = json.loads((repository.folder / "report.json").read_text())
    assert any("exit status 7" in note for note in report["notes"]), (done.stderr, report["notes"])
    assert not repository.mark.exists()  # it stands apart from the files here all the same


def test_show_runs_nothing(repository: Repository) -> None:
    repository.plant(["touch", str(repository.mark)])
    assert repository("show").returncode == 0
    assert not repository.mark.exists()


@pytest.mark.slow
def test_a_seal_is_good_for_one_place_one_command_and_one_user(repository: Repository, tmp_path: Path) -> None:
    real = repository("run", "--no-rerun", "train.py")
    assert real.returncode == 1, real.stderr
    pointer = json.loads((repository.folder / ".graphdoc" / "last.json").read_text())
    record = repository.folder / ".graphdoc" / pointer["runs"] / "run.json"
    document = json.loads(record.read_text())
    assert "not recorded here" not in repository("fix", "--list", "--no-verify").stderr

    moved = tmp_path / "moved"
    shutil.copytree(repository.folder, moved)
    assert "not recorded here" in repository("fix", "--list", "--no-verify", cwd=moved).stderr

    (repository.state / "graphdoc" / "key").rename(tmp_path / "key")
    assert "not recorded here" in repository("fix", "--list", "--no-verify").stderr
    (tmp_path / "key").rename(repository.state / "graphdoc" / "key")

    document["request"]["command"] = ["other.py"]
    record.write_text(json.dumps(document))
    assert "not recorded here" in repository("fix", "--list", "--no-verify").stderr


def test_a_key_that_others_can_read_seals_nothing(repository: Repository) -> None:
    repository("run", "--no-rerun", "train.py")
    key = repository.state / "graphdoc" / "key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.parent.stat().st_mode & 0o777 == 0o700
    key.chmod(0o644)
    assert "not recorded here" in repository("fix", "--list", "--no-verify").stderr


def test_without_a_home_the_key_is_kept_among_temporary_files(repository: Repository, tmp_path: Path) -> None:
    """As in a container with a read-only home; a file in the way stands for it."""
    repository.state.write_text("")
    (tmp_path / "t").mkdir()
    for words in (["run", "--no-rerun", "train.py"], ["fix", "--list", "--no-verify"]):
        done = repository(*words, TMPDIR=str(tmp_path / "t"))
    assert "not recorded here" not in done.stderr and done.returncode == 0, done.stderr


def test_the_folder_that_the_evidence_names_is_not_written(repository: Repository, tmp_path: Path) -> None:
    """``cwd`` and the absolute names in a stranger's evidence lead to other files of the user's."""
    victim = tmp_path / "home"
    victim.mkdir()
    shutil.copy(repository.folder / "train.py", victim / "train.py")
    evidence = repository.observed()
    (repository.folder / "train.py").unlink()
    evidence.process.cwd = str(victim)
    repository.plant(["true"], evidence, cwd=str(victim))
    done = repository("fix", "--unsafe", "--no-verify")
    assert done.returncode in (1, 2) and (victim / "train.py").read_text() == SCRIPT
    evidence.hashes = {}
    shutil.rmtree(repository.folder / ".graphdoc")
    repository.plant(["true"], evidence, cwd=str(victim))
    assert repository("fix", "--unsafe", "--no-verify").returncode in (1, 2)
    assert (victim / "train.py").read_text() == SCRIPT


def test_no_hash_no_edit_and_no_other_text(repository: Repository) -> None:
    repository("run", "--no-rerun", "train.py")
    (found,) = repository.folder.glob(".graphdoc/2*/evidence-*.json")
    evidence = Evidence.read(str(found))
    assert repository("fix", "--diff", "--no-verify").stdout
    hashes, sources = evidence.hashes, evidence.sources
    evidence.hashes = {}
    evidence.write(str(found))
    without = repository("fix", "--diff", "--no-verify")
    assert without.stdout == "" and without.returncode == 1
    evidence.hashes, evidence.sources = hashes, {"train.py": sources["train.py"].replace("torch.ones", "evil.ones")}
    evidence.write(str(found))
    other = repository("fix", "--diff", "--no-verify")
    assert other.stdout == "" and other.returncode == 2 and "has changed since the run" in other.stderr


def test_a_strangers_patch_is_printed_and_not_applied(repository: Repository) -> None:
    alone = repository.folder / "artifact.json"
    repository.observed().write(str(alone))
    shown = repository("fix", str(alone), "--diff")
    assert shown.returncode == 3 and shown.stdout.startswith("--- a/train.py")
    assert repository("fix", str(alone), "--unsafe").returncode == 1
    assert (repository.folder / "train.py").read_text() == SCRIPT


def test_links_among_our_files_are_replaced_not_followed(repository: Repository, tmp_path: Path) -> None:
    target = tmp_path / "bashrc"
    target.write_text("mine")
    place = repository.folder / ".graphdoc"
    place.mkdir()
    (place / "last.json").symlink_to(target)
    (place / "undo.patch").symlink_to(target)
    (place / ".gitignore").symlink_to(tmp_path / "none")
    repository("run", "--no-rerun", "train.py")
    repository("fix", "--unsafe", "--no-verify")
    assert target.read_text() == "mine" and not (tmp_path / "none").exists()
    assert (repository.folder / "train.py").read_text() != SCRIPT


def test_an_interrupted_patch_that_somebody_has_planted_changes_nothing(repository: Repository) -> None:
    place = repository.folder / ".graphdoc"
    place.mkdir()
    script = repository.folder / "train.py"
    files = [[str(script), "ZXZpbA==", hashlib.sha256(SCRIPT.encode()).hexdigest()], ["/nowhere", "", ""]]
    (place / "applying.json").write_text(json.dumps({"files": files, "seal": "0" * 64}))
    repository("run", "--no-rerun", "train.py")
    assert script.read_text() == SCRIPT


@pytest.mark.breadth(4)
@pytest.mark.parametrize("name", ["run.json", "evidence-1.json", "trouble-1.txt", "last.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_neither_waited_for_nor_read(repository: Repository, name: str, kind: str) -> None:
    run = repository.plant(["true"])
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "outcome": None}))
    file = (run.parent if name == "last.json" else run) / name
    file.unlink(missing_ok=True)
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
    for words in (["show"], ["fix", "--diff"]):
        done = repository(*words)
        assert name.startswith("trouble") or "regular file" in done.stderr + done.stdout, done
        assert "internal error" not in done.stderr and done.returncode < 3


def test_a_link_in_the_place_of_the_runs_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    """It may lead to a run that the user has made elsewhere, whose seal holds there."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text(SCRIPT)
    repository("run", "--no-rerun", "train.py", cwd=other)
    place = repository.folder / ".graphdoc"
    place.symlink_to(other / ".graphdoc")
    done = repository("fix", "--unsafe", "--no-verify")
    assert done.returncode == 2 and "is a symbolic link" in done.stderr
    place.unlink()
    place.mkdir()
    (name,) = (run.name for run in (other / ".graphdoc").iterdir() if run.is_dir())
    (place / name).symlink_to(other / ".graphdoc" / name)
    shutil.copy(other / ".graphdoc" / "last.json", place)
    assert repository("fix", "--unsafe", "--no-verify").returncode == 2
    assert (other / "train.py").read_text() == SCRIPT
