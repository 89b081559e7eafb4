"""``[tool.graphdoc]`` of pyproject.toml, and that the command line wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphdoc.cli.arguments import Asked, quick
from graphdoc.cli.settings import with_settings
from graphdoc.errors import UsageError

SETTINGS = (
    '[tool.other]\na = 1\n[tool.graphdoc]\nreport = ["json:a.json", "github"]\nrerun = false\naudit = "all"\n'
    'strict = true\nverify-time = 120\nroot = "src"\n'
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    return tmp_path


@pytest.mark.usefixtures("project")
def test_settings_are_options_that_stand_first() -> None:
    asked = Asked(rerun=False, audit="all", strict=True)
    words = ["run", "train.py", "--strict"]
    assert quick(with_settings(words)) == ("script", words[1:], ["json:a.json", "github"], asked)
    assert with_settings(["fix", "--diff"]) == ["fix", "--verify-time", "120", "--diff"]
    assert with_settings(["show"]) == ["show"] and with_settings([]) == []


@pytest.mark.usefixtures("project")
def test_the_command_line_wins() -> None:
    words = ["run", "--report=html", "--no-strict", "--rerun", "--audit", "off", "train.py"]
    assert quick(with_settings(words)) == ("script", ["train.py"], ["html"], Asked(audit="off"))


def test_settings_are_looked_for_as_far_as_the_top_of_the_repository(project: Path) -> None:
    (project / "src" / "pyproject.toml").write_text("[tool.other]\n")
    assert "--strict" in with_settings(["run", "t.py"])
    (project / "src" / ".git").mkdir()
    assert with_settings(["run", "t.py"]) == ["run", "t.py"]


def test_they_are_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        with_settings(["run", "--show-settings"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# {project / 'pyproject.toml'}\n") and '\naudit = "all"\n' in out
    (project / "pyproject.toml").write_text('[tool.graphdoc]\nreport = ["json", "speech:a.mp3"]\n')
    with pytest.raises(UsageError, match="unknown report format 'speech'"):
        with_settings(["run", "--show-settings"])


@pytest.mark.parametrize(
    "line",
    [
        *("speed = 3", "strict = 1", 'audit = "loud"', "report = 3", "report = [1]", "verify-time = true", "x"),
        *("verify-time = 0", "verify-time = nan", "root = 1", 'root = "nowhere"'),
    ],
)
def test_what_cannot_be_is_one_line(project: Path, line: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.graphdoc]\n{line}\n")
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        with_settings(["run", "t.py"])
