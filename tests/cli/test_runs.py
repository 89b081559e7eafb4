"""Kept runs by their short names: listed, shown, fixed, completed by the shell, and as a baseline of later ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.launch.folders import PLACE, kept_runs

TWICE = """\
import torch
w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""
LOST = """\
import torch
w = torch.ones(2, requires_grad=True)
loss = torch.tensor((w * w).sum().item())
loss.backward()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a program has crashed, and then one has ended well."""
    place = tmp_path_factory.mktemp("runs")
    (place / "twice.py").write_text(TWICE)
    (place / "well.py").write_text("print('well')\n")
    assert graphdoc(place, "run", "--no-rerun", "twice.py", "--lr", "a b", forked=True).returncode == 1
    assert graphdoc(place, "run", "well.py", forked=True).returncode == 0
    return place


def test_runs_are_listed_the_newest_first(folder: Path) -> None:
    newest, crashed = graphdoc(folder, "runs").stdout.splitlines()
    assert newest.endswith("exit 0    well.py")
    assert "exit 1    twice.py --lr 'a b'  RuntimeError: Trying to backward through" in crashed
    rows = json.loads(graphdoc(folder, "runs", "--format", "json").stdout)
    assert [row["run"] for row in rows] == [newest.split()[0], crashed.split()[0]] == list(kept_runs(folder))
    assert [row["command"] for row in rows] == [["well.py"], ["twice.py", "--lr", "a b"]]


def test_a_short_name_is_taken_by_show_and_fix(folder: Path) -> None:
    _, crashed = kept_runs(folder)
    shown = graphdoc(folder, "show", crashed).stdout
    assert shown.startswith("error[GD") and f"\ntry it: graphdoc fix {crashed} --diff\n" in shown
    assert graphdoc(folder, "fix", "--diff", "--no-verify", crashed).stdout.startswith("--- a/twice.py\n")
    done = graphdoc(folder, "show", "no-such")
    assert done.returncode == 2
    assert done.stderr == "graphdoc: no-such: no such file, folder or kept run (`graphdoc runs` lists those)\n"


def test_the_shell_completes_names(folder: Path) -> None:
    asks = graphdoc(folder, COMP_WORDS="graphdoc show ", COMP_CWORD="2", _GRAPHDOC_COMPLETE="complete_bash")
    assert asks.stdout.split() == list(kept_runs(folder))


def test_a_folder_without_runs(tmp_path: Path) -> None:
    assert graphdoc(tmp_path, "runs").stdout == "No run is kept in this folder.\n"
    (tmp_path / PLACE).mkdir()
    (tmp_path / PLACE / "20261128T000000.000000-1").mkdir()
    assert "the record cannot be read" in graphdoc(tmp_path, "runs").stdout
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / PLACE).symlink_to(tmp_path / PLACE)
    assert kept_runs(tmp_path / "elsewhere") == {}


def test_a_baseline_leaves_out_what_it_has_too(folder: Path) -> None:
    baseline = list(kept_runs(folder))[1]
    (folder / "twice.py").write_text("import os\n\n\n" + TWICE)
    same = graphdoc(
        folder, "run", "--no-rerun", "--baseline", baseline, "--report", "json:r.json", "twice.py", forked=True
    )
    report = json.loads((folder / "r.json").read_text())
    assert same.returncode == 1 and "error[" not in same.stderr and report["diagnoses"] == []
    assert "note: not told, because the baseline has it as well: GD10" in same.stderr
    (folder / "twice.py").write_text(LOST)
    new = graphdoc(folder, "run", "--no-rerun", f"--baseline={baseline}", "twice.py", forked=True)
    assert "error[GD3" in new.stderr and "baseline" not in new.stderr
    done = graphdoc(folder, "run", "--baseline", "gone", "well.py", forked=True)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rnu"], "no such command 'rnu'. Did you mean 'run'? `graphdoc --help`"),
        (["show", "--nope"], "no such option: --nope; `graphdoc show --help`"),
        (["fix", "--choose"], "option '--choose' requires an argument; `graphdoc fix --help`"),
    ],
)
def test_words_that_cannot_be_read_are_told_in_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    done = graphdoc(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"graphdoc: {line} lists what there is\n"
