"""``graphdoc doctor`` tells what is here, and what is missing."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from commands import graphdoc


def test_all_that_is_needed_is_here(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.graphdoc]\nstrict = true\n")
    (tmp_path / ".git").mkdir()
    done = graphdoc(tmp_path, "doctor")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and all(line.startswith("ok  ") for line in lines)
    assert sys.executable in lines[0] and version("torch") in lines[1]
    assert lines[2] == "ok  trials: kept apart, what a program writes in one is thrown away"
    assert "git repository" in lines[3] and lines[4].endswith("pyproject.toml (strict)")


def test_what_is_missing_is_said_and_is_the_status(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.graphdoc]\nnan = "sometimes"\n')
    done = graphdoc(tmp_path, "doctor", GRAPHDOC_ISOLATION="none")
    assert done.returncode == 1
    trials, project, settings = done.stdout.splitlines()[2:]
    assert trials.startswith("!!  trials: its writes cannot be kept from your files on this system")
    assert "patch -p1" in project
    assert settings.startswith("!!  settings: ") and "nan is one of" in settings
