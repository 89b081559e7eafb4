"""Whole reports as users see them, one for each program of fixtures/ and each sick example of a cause.

Each is made by a real ``graphdoc run`` at 100 columns without colour; the JSON report lies beside the text.
``GRAPHDOC_BLESS=1 python -m pytest tests/golden -m ''`` writes the files anew: read the diff, it is what users see.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from examples import sick
from programs import programs

from graphdoc.causes import all_causes

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
    report = json.loads((folder / "report.json").read_text())
    for key in ("python", "torch", "seconds"):
        report["run"].pop(key)
    return done.returncode, without_place("".join(lines[start:]), folder), _without_places(report, folder)


def without_place(text: str, folder: Path) -> str:
    """The text with nothing in it that is this machine's or this run's alone."""
    text = text.replace(f"{folder.resolve()}/", "").replace(str(folder.resolve()), ".")
    text = re.sub(re.escape(sys.prefix) + r"/\S*?site-packages/", "site-packages/", text)
    text = re.sub(r"at most \d+ s", "at most N s", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def _without_places(value: Any, folder: Path) -> Any:
    return json.loads(without_place(json.dumps(value), folder))


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
