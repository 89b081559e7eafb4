"""Scripts that are no files, and surroundings that lack something: the program runs, or one clear line says why not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TWICE = "import torch\ny = (torch.ones(2, requires_grad=True) ** 2).sum()\ny.backward()\nprint('once')\ny.backward()\n"
RUN = f"{sys.executable} -m graphdoc"


def shell(folder: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "GRAPHDOC_"))}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**env, "NO_COLOR": "1", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("<(cat train.py)", id="substitution"),
        pytest.param("/dev/stdin < train.py", id="stdin-file", marks=pytest.mark.slow),
        pytest.param("/dev/stdin < <(cat train.py)", id="stdin-pipe", marks=pytest.mark.slow),
        pytest.param("- < train.py", id="dash", marks=pytest.mark.slow),
    ],
)
def test_a_script_that_can_be_read_only_once_is_run(words: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWICE)
    done = shell(tmp_path, f"{RUN} run --report json:r.json {words}")
    assert (done.stdout, done.returncode) == ("once\n", 1), done.stderr
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["outcome"] == "autograd-failure"
    assert report["diagnoses"][0]["cause"]


def test_a_fifo_is_run(tmp_path: Path) -> None:
    """One that does not fail: to show the line of an error, Python itself would open it again and wait for ever."""
    (tmp_path / "train.py").write_text("print('once')\n")
    os.mkfifo(tmp_path / "fifo")
    done = shell(tmp_path, f"{RUN} run fifo & p=$!; cat train.py > fifo; wait $p")
    assert (done.stdout, done.stderr, done.returncode) == ("once\n", "", 0)


def test_a_deleted_working_directory(tmp_path: Path) -> None:
    for words in ("run x.py", "show", "fix --diff", "explain GD101", "--help"):
        done = shell(tmp_path, f"mkdir gone; cd gone; rmdir ../gone; {RUN} {words}")
        assert done.stderr.splitlines()[-1] == "graphdoc: the working directory is no longer there"
        assert (done.stdout, done.returncode) == ("", 2)


@pytest.mark.slow
def test_closed_streams(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TWICE.replace("print('once')", "open('ran', 'w')"))
    done = shell(tmp_path, f"{RUN} run --report json:r.json train.py >&-")
    assert done.returncode == 1 and "error[GD1" in done.stderr and "internal" not in done.stderr
    assert (tmp_path / "ran").exists() and (tmp_path / "r.json").exists()
    for words in ("show", "fix --no-verify --list", "causes", "explain GD101"):
        done = shell(tmp_path, f"{RUN} {words} >&-")
        assert (done.stderr, done.returncode) == ("graphdoc: standard output is closed\n", 2), words
    (tmp_path / "r.json").unlink()
    done = shell(tmp_path, f"{RUN} run --report json:r.json train.py 2>&-")
    assert (done.stdout, done.returncode) == ("", 1)
    assert json.loads((tmp_path / "r.json").read_text())["diagnoses"]


@pytest.mark.breadth(2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("words", ["causes", "explain GD101", "--version", "--help", "run --help"])
def test_a_standard_output_that_takes_nothing_more(tmp_path: Path, words: str) -> None:
    done = shell(tmp_path, f"{RUN} {words} > /dev/full")
    told = "graphdoc: cannot write to standard output: No space left on device\n"
    assert (done.stderr, done.returncode) == (told, 2)


def test_a_reader_that_stops_reading(tmp_path: Path) -> None:
    done = shell(tmp_path, f"set -o pipefail; {RUN} causes --format json | true")
    assert done.stderr == ""


@pytest.mark.breadth(1)
@pytest.mark.parametrize("name", ["libcst", "rich", "typer"])
def test_without_a_dependency(name: str, tmp_path: Path) -> None:
    """As after ``pip install --no-deps``; a module in its place that cannot be imported stands for it."""
    (tmp_path / "train.py").write_text(TWICE)
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module named {name}', name='{name}')\n")
    done = shell(
        tmp_path, f"{RUN} run --report sarif:r.sarif train.py", PYTHONPATH=str(lacking), FORCE_COLOR="1", NO_COLOR=""
    )
    assert (done.stdout, done.returncode) == ("once\n", 1)
    ours = [line for line in done.stderr.splitlines() if "graphdoc: " in line]
    if name == "typer":
        assert ours == [] and "GD1" in done.stderr
    else:
        assert len(ours) == 1 and f"{name} is not installed" in ours[0], done.stderr
    if name == "libcst":
        assert json.loads((tmp_path / "r.sarif").read_text())["runs"][0]["results"]
        fix = shell(tmp_path, f"{RUN} fix --diff", PYTHONPATH=str(lacking))
        assert (fix.stdout, fix.returncode, fix.stderr.count("\n")) == ("", 2, 1) and "libcst is not" in fix.stderr
    shutil.rmtree(tmp_path / ".graphdoc")
    asked = shell(tmp_path, f"{RUN} run --help", PYTHONPATH=str(lacking))
    if name == "typer":
        assert asked.returncode == 2 and asked.stderr.count("\n") == 1 and "typer is not installed" in asked.stderr
    else:
        assert asked.returncode == 0
