"""Whole reports as users see them, one for each program of fixtures/ and each sick example of a cause; and what else
must be true of such an example, which is run once for all of it.

Those of fixtures that end well are made by a real ``graphdoc run``, the others in forks of a process that has torch
loaded; at 100 columns without colour. The JSON report lies beside the text.
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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import told_in_forks
from examples import Example, at_every_save, last_exception, sick
from forked import run_forked
from programs import programs
from seen import built, failing_line, observe

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause
from graphdoc.evidence import Evidence, Raised
from graphdoc.program.observed import program_of
from graphdoc.render import render

REPORTS = Path(__file__).parent / "reports"
OURS = re.compile(r"^(?:(?:error|warning|note)\[GD\d+\]|graphdoc: )")
"""The first line of what is not the program's own."""


@dataclass(frozen=True)
class Program:
    """A program and the names under which its report is kept; ``cause`` are accepted slugs, ``lines`` culprits."""

    group: str
    name: str
    source: str
    cause: tuple[str, ...]
    lines: tuple[str, ...]
    status: int = 1


def _of(cause: Cause, example: Example) -> Program:
    return Program(cause.slug, example.name, example.code, (cause.slug,), (example.line,), int(bool(example.fails)))


FIXTURES = [
    Program("fixtures", p.name, p.source, p.cause, p.lines, int(p.outcome == "autograd-failure"))
    for p in programs()
    if p.program.endswith(".py")
]
SICK = [(cause, example) for cause in all_causes() for example in sick(cause)]


def _really_run(program: Program, folder: Path) -> tuple[int, str, dict[str, Any]]:
    (folder / "train.py").write_text(program.source)
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


def _run_in_forks(program: Program, folder: Path) -> told_in_forks.Told:
    if "GRAPHDOC_KEPT" in os.environ:
        folder = Path(os.environ["GRAPHDOC_KEPT"]).resolve() / program.group / program.name
        if (folder / "said.json").exists() and (folder / "train.py").read_text() == program.source:
            return replace(told_in_forks.tell(folder), said=json.loads((folder / "said.json").read_text()))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (folder / "train.py").write_text(program.source)
    told = told_in_forks.run(folder)
    (folder / "said.json").write_text(json.dumps(told.said))
    return told


def _shown(told: told_in_forks.Told) -> str:
    said = "".join(f"graphdoc: {line}\n" for line in told.said)
    return said + render(told.report, "terminal", width=100, color=False)


def without_place(text: str, folder: Path) -> str:
    """The text with nothing in it that is this machine's or this run's alone."""
    text = text.replace(f"{folder.resolve()}/", "").replace(str(folder.resolve()), ".")
    text = re.sub(re.escape(sys.prefix) + r"/\S*?site-packages/", "site-packages/", text)
    text = re.sub(r"at most \d+ s", "at most N s", text)
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def rounded(text: str) -> str:
    """The text with powers of ten for what has grown out of all bounds: its digits are those of one processor."""
    return re.sub(r"\d(\.\d+)?(?=e[+-]?\d\d)", "N", text)


def check(program: Program, folder: Path, status: int, text: str, report: dict[str, Any]) -> None:
    """The report is the kept one, but for what no two runs share, and it names cause and place."""
    for key in ("python", "torch", "seconds"):
        report["run"].pop(key)
    text = without_place(text, folder)
    document = without_place(json.dumps(report, indent=1, ensure_ascii=False) + "\n", folder)
    report = json.loads(document)
    kept = REPORTS / program.group / program.name
    if os.environ.get("GRAPHDOC_BLESS"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.with_suffix(".txt").write_text(text)
        kept.with_suffix(".json").write_text(document)
    assert status == program.status
    if program.cause:
        first = report["diagnoses"][0]
        assert first["cause"] in program.cause
        causes = [s for s in first["spans"] if s["role"] == "cause"]
        wanted = [n for n, line in enumerate(program.source.splitlines(), 1) if line.strip() in program.lines]
        assert 1 <= len(causes) <= 3
        assert any(s["line"] <= n <= s["end_line"] for s in causes for n in wanted)
    assert rounded(text) == rounded(kept.with_suffix(".txt").read_text())
    assert rounded(document) == rounded(kept.with_suffix(".json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("program", FIXTURES, ids=lambda p: f"fixtures-{p.name}")
def test_report_of_a_fixture(program: Program, tmp_path: Path) -> None:
    """One that fails is run in forks: tests/fixtures/test_said.py and tests/doors really run those, and try patches."""
    if program.status == 0:
        check(program, tmp_path, *_really_run(program, tmp_path))
    else:
        told = _run_in_forks(program, tmp_path)
        check(program, told.kept.cwd, told.report.run.exit_status, _shown(told), told.report.to_json())


@pytest.mark.parametrize(("cause", "example"), at_every_save(SICK))
def test_report(cause: Cause, example: Example, tmp_path: Path) -> None:
    told = _run_in_forks(_of(cause, example), tmp_path)
    assert not example.fails or example.fails in last_exception(told.stderr), told.stderr
    check(_of(cause, example), told.kept.cwd, told.report.run.exit_status, _shown(told), told.report.to_json())
    if not example.fails:
        assert cause.code.startswith("GD6") or told.report.diagnoses[0].confidence != "possible"
    elif cause.code.startswith(("GD1", "GD2")):
        within_reach_by_text_alone(cause, told)
    for group, holds in HOLDS.items():
        if cause.code.startswith(group):
            holds(cause, example, told, tmp_path)


def within_reach_by_text_alone(cause: Cause, told: told_in_forks.Told) -> None:
    """A cause of another group may need more than the message."""
    kind, _, message = last_exception(told.stderr).partition(": ")
    finding = cause.recognise(program_of(Evidence(raised=Raised(kind, message), from_text=True)))
    assert finding is not None
    assert finding.strength < 0.5 and finding.confidence != "certain"


def one_cause_claims_it(cause: Cause, example: Example, told: told_in_forks.Told, folder: Path) -> None:
    """Of all causes of a second backward the right one alone."""
    causes = [c for c in all_causes() if c.code.startswith(cause.code[:3])]
    claims = {c.slug: found.strength for c in causes if (found := c.recognise(program_of(told.evidence))) is not None}
    assert list(claims) == [cause.slug]
    assert claims[cause.slug] >= 0.5


def some_patch_ends_the_error(cause: Cause, example: Example, told: told_in_forks.Told, folder: Path) -> None:
    """Or leads to another fault of the program, at another line."""
    patched = folder / "patched" / "train.py"
    patched.parent.mkdir()
    for _, texts in patches(told):
        assert list(texts) == ["train.py"]
        patched.write_text(texts["train.py"])
        done = run_forked(patched)
        if done.status == 0 or failing_line(done.stderr) != failing_line(told.stderr):
            return
    raise AssertionError("no patch ends the error")


def the_first_patch_ends_what_was_told(cause: Cause, example: Example, told: told_in_forks.Told, folder: Path) -> None:
    for _, texts in patches(told)[:1]:
        mended = texts["train.py"].replace("JITTER", "1e-4")  # what its author may write
        seen = observe(folder / "mended", mended)
        assert seen.result.status == 0, seen.result.stderr
        # A later line may meet the same values by itself: `fix` then goes on with that one.
        assert not seen.slugs or example.line not in seen.lines("cause")


HOLDS = {
    "GD1": one_cause_claims_it,
    "GD2": some_patch_ends_the_error,
    "GD6": the_first_patch_ends_what_was_told,
}
"""What must be true of each example of a group besides."""


def patches(told: told_in_forks.Told) -> list[tuple[str, dict[str, str]]]:
    return built(told.report.diagnoses[0].remedies, told.report.sources)


def test_no_report_is_left_over() -> None:
    kept = {path.relative_to(REPORTS).with_suffix("").as_posix() for path in REPORTS.rglob("*.*")}
    assert kept == {f"{p.group}/{p.name}" for p in [*FIXTURES, *(_of(c, e) for c, e in SICK)]}


@pytest.mark.parametrize("path", sorted((REPORTS / "fixtures").glob("*.txt")), ids=lambda p: p.stem)
def test_reports_of_the_fixtures_fit_a_screen(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 100 for line in lines if not line.startswith("graphdoc: "))  # one line, to be searched for
