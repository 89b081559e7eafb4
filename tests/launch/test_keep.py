"""What stays of a run, where, and how it is found again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from graphdoc.errors import UsageError
from graphdoc.evidence import Evidence, Process, Raised
from graphdoc.launch import Ended, Request
from graphdoc.launch.folders import KEPT_RUNS, PLACE, new_run, release
from graphdoc.launch.keep import Kept, keep, last_run, open_run


def finished(cwd: Path, status: int = 1) -> Kept:
    folder = new_run(cwd)
    evidence = folder / "evidence-12.json"
    Evidence(process=Process(pid=12, argv=["train.py"], cwd=str(cwd)), raised=Raised("RuntimeError", "x")).write(
        str(evidence)
    )
    ended = Ended(status, None, 1.25, False, ["one line"], [evidence])
    kept = keep(folder, Request(["train.py", "--lr", "é"], "script", cwd=str(cwd)), ended, rerun=False)
    kept.save()
    return kept


def test_last_run_is_found_again_as_it_was(tmp_path: Path) -> None:
    finished(tmp_path, 3)
    kept = finished(tmp_path)
    assert last_run(tmp_path) == kept
    assert kept.cwd == tmp_path
    assert open_run(kept.folder, Path("/")) == kept
    assert open_run(kept.evidence[0], Path("/")) == kept


def test_evidence_from_another_machine_stands_alone(tmp_path: Path) -> None:
    kept = finished(tmp_path)
    alone = tmp_path / "artifact.json"
    kept.evidence[0].rename(alone)
    found = open_run(alone, tmp_path)
    assert found.request.command == ["train.py"] and found.exit_status == 1 and found.evidence == (alone,)


def test_git_does_not_see_the_folder(tmp_path: Path) -> None:
    new_run(tmp_path)
    assert (tmp_path / PLACE / ".gitignore").read_text() == "*\n"


def test_only_the_newest_runs_stay(tmp_path: Path) -> None:
    other = tmp_path / PLACE / "notes"
    other.mkdir(parents=True)
    folders = []
    for _ in range(KEPT_RUNS + 3):
        folders.append(new_run(tmp_path))
        release(folders[-1])
    left = sorted(p for p in (tmp_path / PLACE).iterdir() if p.is_dir() and p != other)
    assert left == folders[3:]
    assert other.is_dir()


def test_nothing_kept_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run is kept in this folder yet"):
        last_run(tmp_path)
    kept = finished(tmp_path)
    for file in kept.folder.iterdir():
        file.unlink()
    kept.folder.rmdir()
    with pytest.raises(UsageError, match="no longer there"):
        last_run(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"runs": 3}', "\xff", '{"runs": "../.."}'])
def test_a_damaged_pointer_is_one_clear_line(tmp_path: Path, text: str) -> None:
    finished(tmp_path)
    (tmp_path / PLACE / "last.json").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError) as caught:
        last_run(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", [{"request": None}, {"outcome": {}}, {"request": {"kind": "x", "command": []}}])
def test_a_damaged_record_is_one_clear_line(tmp_path: Path, change: dict[str, object]) -> None:
    kept = finished(tmp_path)
    record = kept.folder / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}))
    with pytest.raises(UsageError, match="is damaged"):
        last_run(tmp_path)


def test_truncated_evidence_is_one_clear_line(tmp_path: Path) -> None:
    kept = finished(tmp_path)
    text = kept.evidence[0].read_text()
    kept.evidence[0].write_text(text[: len(text) // 2])
    with pytest.raises(UsageError, match="truncated"):
        open_run(kept.evidence[0], tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        open_run(tmp_path / "none.json", tmp_path)


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / PLACE).write_text("a file is in the way")
    with pytest.raises(OSError):  # noqa: PT011 (which one depends on the system)
        new_run(tmp_path)
    assert os.listdir(tmp_path) == [PLACE]


def test_a_full_disk_leaves_no_empty_folder(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: the folder can be made, nothing can be written into it."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(OSError):  # noqa: PT011 (which one depends on the system)
            new_run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []
