"""The four troubles that graphdoc began with, in a test and in a notebook: code and place as on the command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import Program, programs

pytestmark = pytest.mark.slow

REPORTS = Path(__file__).resolve().parents[1] / "golden" / "reports" / "fixtures"
FIRST = {p.seed: p for p in reversed(programs()) if p.outcome == "autograd-failure"}
SEEDS = sorted(FIRST.values(), key=lambda p: p.name)


def on_the_command_line(sick: Program) -> tuple[str, int]:
    """Code and first line of the report that ``graphdoc run`` gives."""
    return told((REPORTS / f"{sick.name}.txt").read_text())


def told(text: str) -> tuple[str, int]:
    """Code and first line of a report as text."""
    found = re.search(r"error\[(GD\d+)\](?s:.*?)--> [^\n:]+:(\d+):", text)
    assert found is not None, text
    return found[1], int(found[2])


def test_as_failing_tests(tmp_path: Path) -> None:
    assert len(SEEDS) == 4
    for sick in SEEDS:
        shutil.copytree(sick.folder, tmp_path / sick.name)
    (tmp_path / "test_seeds.py").write_text(
        "import runpy\nimport pytest\n\n"
        f"@pytest.mark.parametrize('path', {[f'{p.name}/{p.program}' for p in SEEDS]})\n"
        "def test_seed(path):\n    runpy.run_path(path, run_name='__main__')\n"
    )
    command = [sys.executable, "-m", "pytest", "--graphdoc", "-p", "no:cacheprovider"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500)
    parts = re.split(r"(?m)^-+ graphdoc -+$", done.stdout)[1:]
    assert [told(part) for part in parts] == [on_the_command_line(sick) for sick in SEEDS], done.stdout


def by_the_environment(folder: Path, sick: Program) -> str:
    """What is told of a run that a variable alone has watched."""
    seen = {**plain(), "GRAPHDOC_OBSERVE": str(folder / "seen")}
    assert subprocess.run([sys.executable, sick.program], cwd=folder, env=seen, capture_output=True).returncode == 1
    show = [sys.executable, "-m", "graphdoc", "show", str(folder / "seen"), "--rerun"]
    return subprocess.run(show, cwd=folder, env=plain(), capture_output=True, text=True, timeout=300).stdout


def in_a_block(folder: Path, sick: Program) -> str:
    """What a block around the program tells. (Lightning and the trainers have fixtures of their own, in test_block.py
    and test_trainers.py.)"""
    (folder / "around.py").write_text(
        "import runpy, sys\nimport graphdoc\n\nwith graphdoc.observe():\n"
        "    runpy.run_path(sys.argv[1], run_name='__main__')\n"
    )
    words = [sys.executable, "around.py", sick.program]
    return subprocess.run(words, cwd=folder, env=plain(), capture_output=True, text=True, timeout=300).stderr


def plain() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRAPHDOC"))}


@pytest.mark.parametrize(("number", "sick"), list(enumerate(SEEDS)), ids=lambda one: getattr(one, "name", ""))
def test_where_nobody_can_say_graphdoc_run(tmp_path: Path, number: int, sick: Program) -> None:
    """One variable for two of them, a block around the program for the others."""
    folder = shutil.copytree(sick.folder, tmp_path / sick.name)
    shown = (by_the_environment, in_a_block)[number % 2](folder, sick)
    assert told(shown) == on_the_command_line(sick) or (number % 2 and "= possible:" in shown), shown


def test_as_cells(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbclient")
    from test_notebook import printed, run

    cells = run(tmp_path, "%load_ext graphdoc", *[sick.source for sick in SEEDS])
    for sick, cell in zip(SEEDS, cells[1:], strict=True):
        shown = printed(cell)
        # What only a second run tells, a session cannot: it says so, and is not certain.
        assert told(shown) == on_the_command_line(sick) or ("second time" in shown and "= possible:" in shown), shown
