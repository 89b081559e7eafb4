"""Reports reach the places they were asked for, and GitHub by themselves."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from graphdoc.cli.output import Wanted, parse_reports, put, say, show, tell_github, write_reports
from graphdoc.errors import UsageError
from graphdoc.model import Diagnosis, Fix, Report, Run, Span
from graphdoc.render import FORMATS

SPAN = Span("cause", "train.py", 4, 8, 4, 13, "here")
FOUND = Diagnosis("GD103", "undetached-target", "certain", "a title", "an explanation", (SPAN,))
REPORT = Report(Run(("train.py",), exit_status=1), "autograd-failure", None, (FOUND,))


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def test_format_and_file(tmp_path: Path) -> None:
    file = tmp_path / "a:b.json"
    assert parse_reports(["json", f"json:{file}", "github:"]) == [
        Wanted("json"),
        Wanted("json", file),
        Wanted("github"),
    ]
    for value in ("", "pdf", ":file", "JSON"):
        with pytest.raises(UsageError, match="unknown report format"):
            parse_reports([value])


def test_github_gets_annotations_and_a_summary(summary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell_github(REPORT, [])
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("::error ")
    assert summary.read_text().startswith("before\n") and "GD103" in summary.read_text()


def test_github_annotations_come_once(summary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = [Wanted("github")]
    write_reports(REPORT, wanted)
    tell_github(REPORT, wanted)
    assert capsys.readouterr().err.count("::error ") == 1


def test_github_hears_nothing_where_nothing_is_wrong(summary: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tell_github(Report(Run(), "completed"), [])
    assert capsys.readouterr() == ("", "")
    assert summary.read_text() == "before\n"


def test_elsewhere_github_is_not_addressed(
    summary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS")
    tell_github(REPORT, [])
    assert capsys.readouterr().err == ""
    assert summary.read_text() == "before\n"


def test_a_summary_that_cannot_be_written_costs_a_line(
    summary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary.parent))
    tell_github(REPORT, [])
    assert capsys.readouterr().err.splitlines()[-1] == "graphdoc: cannot write the step summary: Is a directory"


def test_a_stream_that_knows_few_characters_is_no_error() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    put("é → x\n", stream)
    show(REPORT, "terminal", stream)
    assert stream.buffer.getvalue().startswith(b"? ? x\n")


def test_a_report_replaces_the_old_one_whole(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text("x" * 100_000)
    file.chmod(0o600)
    write_reports(REPORT, [Wanted("json", file)])
    assert file.read_text().startswith("{") and file.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


ORDERS = "a\x1b[2J\x9b1mb\u202ec\rd\x07"


def test_nothing_that_a_terminal_obeys_is_put_or_said(capsys: pytest.CaptureFixture[str]) -> None:
    put(f"{ORDERS}\n\tnext\n", sys.stdout)
    say(f"{ORDERS}\nnext")
    out, err = capsys.readouterr()
    assert out == "a\\x1b[2J\\x9b1mb\\u202ec\\x0dd\\x07\n\tnext\n"
    assert err == "graphdoc: a\\x1b[2J\\x9b1mb\\u202ec d\\x07 next\n"


@pytest.mark.parametrize("fmt", FORMATS)
def test_no_format_gives_an_order_to_a_runner(fmt: str, capsys: pytest.CaptureFixture[str]) -> None:
    """GitHub and Azure obey ``##[...]`` wherever it stands, and GitHub ``::...::`` at the beginning of a line."""
    text = "x ##[error]forged ##vso[task.complete] \n::error::forged \x1b[31m"
    fixed = Fix("f", text, "safe", "--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-x ##[error]y\n+z ##[error]\n", text)
    span = Span("cause", "t.py", 1, 1, 1, 2, text)
    found = Diagnosis("GD103", "undetached-target", "certain", text, text, (span,), (text,), (fixed,))
    run = Run(("t.py", text), exit_status=1)
    report = Report(
        run, "autograd-failure", {"type": "E", "message": text}, (found,), (text,), {"t.py": "x ##[error]\n::error::y"}
    )
    show(report, fmt, sys.stderr)
    err = capsys.readouterr().err
    assert "##[" not in err and "##vso[" not in err and "\x1b" not in err
    own = 1 if fmt == "github" else 0
    assert sum(line.lstrip().startswith("::") for line in err.splitlines()) == own
    if fmt == "json":
        assert json.loads(err)["notes"] == [text]
