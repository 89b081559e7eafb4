"""Whole reports as users see them, one for each program of fixtures/ and each sick example of a cause.

Those of the fixtures are made by a real ``graphdoc run``, the others in forks of a process that has torch loaded; at
100 columns without colour. The JSON report lies beside the text.
``GRAPHDOC_BLESS=1 python -m pytest tests/golden -m ''`` writes the files anew: read the diff, it is what users see.
``GRAPHDOC_KEPT=FOLDER`` keeps the runs there and tells the next time what each of them has left, without torch: all in
a minute or two, for a change of diagnosis, words or patches. A change of what is recorded needs an empty folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import told_in_forks
from examples import sick
from programs import programs

from graphdoc.causes import all_causes
from graphdoc.model import Report
from graphdoc.render import render

REPORTS = Path(__file__).parent / "reports"
OURS = re.compile(r"^(?:(?:error|warning|note)\[GD\d+\]|graphdoc: )")
"""The first line of what is not the program's own."""


@dataclass(frozen=True)
class Told:
    """A program and the names under which its report is kept; ``cause`` are accepted slugs, ``lines`` culprits."""

    group: str
    name: str
    source: str
    cause: tuple[str, ...]
    lines: tuple[str, ...]
    status: int = 1


def _examples() -> list[Told]:
    return [
        Told(cause.slug, example.name, example.code, (cause.slug,), (example.line,), int(bool(example.fails)))
        for cause in all_causes()
        for example in sick(cause)
    ]


def _fixtures() -> list[Told]:
    return [
        Told("fixtures", p.name, p.source, p.cause, p.lines, int(p.outcome == "autograd-failure"))
        for p in programs()
        if p.program.endswith(".py")
    ]


TOLD = [*_fixtures(), *_examples()]


def run(told: Told, folder: Path) -> tuple[int, str, dict[str, Any]]:
    """The exit status, the report on the terminal and the JSON report of a run; what no two runs share is taken out."""
    if told.group == "fixtures":
        status, text, report = _really_run(told, folder)
    else:
        status, text, report = _run_in_forks(told, folder)
    for key in ("python", "torch", "seconds"):
        report["run"].pop(key)
    return status, without_place(text, folder), json.loads(without_place(json.dumps(report), folder))


def _really_run(told: Told, folder: Path) -> tuple[int, str, dict[str, Any]]:
    (folder / "train.py").write_text(told.source)
    away = ("GITHUB", "GRAPHDOC", "CI", "COLUMNS", "FORCE_COLOR")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(away)}
    done = subprocess.run(
        [sys.executable, "-m", "graphdoc", "run", "--report", "json:report.json", "train.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        env={**environment, "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"},
    )
    lines = done.stderr.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if OURS.match(line)), len(lines))
    return done.returncode, "".join(lines[start:]), json.loads((folder / "report.json").read_text())


def _run_in_forks(told: Told, folder: Path) -> tuple[int, str, dict[str, Any]]:
    if "GRAPHDOC_KEPT" in os.environ:
        folder = Path(os.environ["GRAPHDOC_KEPT"]).resolve() / told.group / told.name
        if (folder / "said.json").exists() and (folder / "train.py").read_text() == told.source:
            return _shown(told_in_forks.tell(folder), json.loads((folder / "said.json").read_text()))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (folder / "train.py").write_text(told.source)
    report, said = told_in_forks.run(folder)
    (folder / "said.json").write_text(json.dumps(said))
    return _shown(report, said)


def _shown(report: Report, said: list[str]) -> tuple[int, str, dict[str, Any]]:
    text = "".join(f"graphdoc: {line}\n" for line in said) + render(report, "terminal", width=100, color=False)
    return report.run.exit_status, text, report.to_json()


def without_place(text: str, folder: Path) -> str:
    """The text with nothing in it that is this machine's or this run's alone."""
    text = text.replace(f"{folder.resolve()}/", "").replace(str(folder.resolve()), ".")
    text = re.sub(re.escape(sys.prefix) + r"/\S*?site-packages/", "site-packages/", text)
    text = re.sub(r"at most \d+ s", "at most N s", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def rounded(text: str) -> str:
    """The text with powers of ten for what has grown out of all bounds: its digits are those of one processor."""
    return re.sub(r"\d(\.\d+)?(?=e[+-]?\d\d)", "N", text)


@pytest.mark.slow
@pytest.mark.parametrize("told", TOLD, ids=lambda t: f"{t.group}-{t.name}")
def test_report(told: Told, tmp_path: Path) -> None:
    status, text, report = run(told, tmp_path)
    document = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    kept = REPORTS / told.group / told.name
    if os.environ.get("GRAPHDOC_BLESS"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.with_suffix(".txt").write_text(text)
        kept.with_suffix(".json").write_text(document)
    assert status == told.status
    if told.cause:
        first = report["diagnoses"][0]
        assert first["cause"] in told.cause
        causes = [s for s in first["spans"] if s["role"] == "cause"]
        wanted = [n for n, line in enumerate(told.source.splitlines(), 1) if line.strip() in told.lines]
        assert 1 <= len(causes) <= 3
        assert any(s["line"] <= n <= s["end_line"] for s in causes for n in wanted)
    assert rounded(text) == rounded(kept.with_suffix(".txt").read_text())
    assert rounded(document) == rounded(kept.with_suffix(".json").read_text())


def test_no_report_is_left_over() -> None:
    kept = {path.relative_to(REPORTS).with_suffix("").as_posix() for path in REPORTS.rglob("*.*")}
    assert kept == {f"{t.group}/{t.name}" for t in TOLD}


@pytest.mark.parametrize("path", sorted((REPORTS / "fixtures").glob("*.txt")), ids=lambda p: p.stem)
def test_reports_of_the_fixtures_fit_a_screen(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 100 for line in lines if not line.startswith("graphdoc: "))  # one line, to be searched for
