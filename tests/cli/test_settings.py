"""``[tool.graphdoc]`` of pyproject.toml, and that the command line wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import graphdoc

from graphdoc.cli.arguments import Asked, quick, reports, with_settings
from graphdoc.cli.output import Wanted, write_reports
from graphdoc.cli.running import run
from graphdoc.errors import UsageError
from graphdoc.model import Report, Run
from graphdoc.project import project_root
from graphdoc.render import FORMATS

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


def test_settings_are_options_that_stand_first(project: Path) -> None:
    asked = Asked(rerun=False, audit="all", strict=True)
    words = ["run", "train.py", "--strict"]
    assert quick(with_settings(words)) == ("script", words[1:], [], asked)
    here = project / "src"
    assert reports(here) == [Wanted("json", Path("a.json"), project), Wanted("github")]
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
        *(
            "verify-time = 0",
            "verify-time = nan",
            "root = 1",
            'root = "nowhere"',
            'baseline = "gone.json"',
            'ignore = ["GD7"]',
            'ignore = ["GD705", "GD999"]',
            'baseline = "../pyproject.toml"',
        ),
        *('root = "/"', 'root = ".."', 'root = "out"', 'root = "a\\u0000b"', "audit" + ".a" * 5000 + " = 1"),
        *("strict = " + "[" * 5000 + "]" * 5000, f'nan = "{"x" * 100_000}"', "#" * 1_000_001),
    ],
)
def test_what_cannot_be_is_one_line(project: Path, line: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.graphdoc]\n{line}\n")
    (project / "out").symlink_to(project.parent)
    with pytest.raises(UsageError, match=r"pyproject\.toml") as told:
        with_settings(["run", "t.py"])
    assert "\n" not in str(told.value) and len(str(told.value)) < 500


@pytest.mark.parametrize("kind", ["pipe", "device", "link to itself"])
def test_what_is_no_file_is_not_read(project: Path, kind: str) -> None:
    file = project / "pyproject.toml"
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero" if kind == "device" else file)
    if kind == "link to itself":  # nobody's file
        assert with_settings(["run", "t.py"]) == ["run", "t.py"]
        return
    with pytest.raises(UsageError, match=r"pyproject\.toml: it is not a regular file"):
        with_settings(["run", "t.py"])
    assert project_root(project / "src") == project


OTHERS = "w = 1  # the user's own\n"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("terminal:train.py", "graphdoc did not write it"),
        ("json:notes.md", "graphdoc did not write it"),
        ("json:pipe", "graphdoc did not write it"),
        ("json:../victim", "it lies outside"),
        ("json:../new", "it lies outside"),
        ("json:{outside}/new", "it lies outside"),
        ("json:link", "it lies outside"),
        ("json:folder/new", "it lies outside"),
        ("json:/dev/stdout", "it lies outside"),
        ("json:.git/config", "begins with a dot"),
        ("json:.graphdoc/last.json", "begins with a dot"),
        ("json:nowhere/new", "does not exist"),
        ("json:a\\u0000b", "does not exist"),
    ],
)
def test_a_strangers_report_stays_in_the_project_and_replaces_a_report_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, why: str
) -> None:
    project = tmp_path / "clone"
    for folder in (".git", ".graphdoc"):
        (project / folder).mkdir(parents=True)
    victim = tmp_path / "victim"
    for file in (victim, project / "train.py", project / "notes.md"):
        file.write_text(OTHERS)
    (project / "link").symlink_to(tmp_path / "made")
    (project / "folder").symlink_to(tmp_path)
    os.mkfifo(project / "pipe")
    monkeypatch.chdir(project)
    (project / "pyproject.toml").write_text(f'[tool.graphdoc]\nreport = ["{named.format(outside=tmp_path)}"]\n')
    with pytest.raises(UsageError, match=why):
        run("script", ["train.py"], [], Asked(rerun=False))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["clone", "victim"]
    assert {f.read_text() for f in (victim, project / "train.py", project / "notes.md")} == {OTHERS}


FAILS = "import torch\nx = torch.ones(2, requires_grad=True)\ny = (x * x).sum()\ny.backward()\ny.backward()\n"


def test_what_was_no_report_when_the_program_had_ended_is_not_replaced(tmp_path: Path) -> None:
    """The program writes it, or puts a link there."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.graphdoc]\nreport = ["json:a.json", "json:b.json", "json:c.json"]\n'
    )
    (tmp_path / "train.py").write_text(
        "import os\nopen('a.json', 'w').write('mine')\nos.symlink('../made', 'b.json')\n" + FAILS
    )
    told = graphdoc(tmp_path, "run", "--no-rerun", "train.py", forked=True).stderr
    assert "cannot write a.json: graphdoc did not write it" in told and "cannot write b.json: it lies outside" in told
    assert (tmp_path / "a.json").read_text() == "mine" and not (tmp_path.parent / "made").exists()
    assert '"GD1' in (tmp_path / "c.json").read_text()


NOTES = Report(Run(), "other-failure", notes=("a note",))
"""Without a diagnosis."""


@pytest.mark.parametrize("report", [NOTES, Report(Run(), "completed")], ids=["notes", "nothing"])
def test_a_report_is_replaced_by_the_next_one_whatever_is_in_it(tmp_path: Path, report: Report) -> None:
    for name in (*FORMATS, FORMATS[0]):
        one = Wanted(name, tmp_path / "out", tmp_path)
        assert not one.refusal(), name
        write_reports(report, [one])


@pytest.mark.breadth(1)
@pytest.mark.parametrize("script", ["train.py", "train"])
def test_what_a_user_types_replaces_all_but_sources(tmp_path: Path, script: str) -> None:
    (tmp_path / script).write_text(FAILS)
    (tmp_path / "model.py").write_text(OTHERS)
    (tmp_path / "link").symlink_to(script)
    (tmp_path / "notes.md").write_text(OTHERS)
    for target in (script, "model.py", str(tmp_path / script), "link"):
        done = graphdoc(tmp_path, "run", "--report", f"terminal:{target}", script, forked=True)
        assert (
            done.returncode == 2 and "because it is a source file" in done.stderr and len(done.stderr.split("\n")) == 2
        )
    outside = tmp_path.parent / f"{tmp_path.name}-{script}.json"
    done = graphdoc(
        tmp_path, "run", "--no-rerun", "--report", "json:notes.md", "--report", f"json:{outside}", script, forked=True
    )
    assert "GD1" in (tmp_path / "notes.md").read_text() and "GD1" in outside.read_text(), done.stderr
    graphdoc(tmp_path, "fix", "--diff", "--no-verify", "--report", f"json:{script}")
    assert (tmp_path / script).read_text() == FAILS and (tmp_path / "model.py").read_text() == OTHERS


def test_a_baseline_is_named_from_the_folder_of_the_file(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.graphdoc]\nbaseline = "kept.json"\n')
    (project / "kept.json").write_text("{}")
    asked = quick(with_settings(["run", "t.py"]))
    assert asked is not None and asked[3] == Asked(baseline=str(project / "kept.json"))
    other = quick(with_settings(["run", "--baseline", "a1b2", "t.py"]))
    assert other is not None and other[3] == Asked(baseline="a1b2")
