"""Examples of GD3, GD4, GD5 and GD8 under ``graphdoc run``: told for what they are, at their line, or left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples import Example, healthy, sick

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause

CAUSES = [c for c in all_causes() if c.code.startswith(("GD3", "GD4", "GD5", "GD8"))]
SICK = [pytest.param(c, e, id=f"{c.slug}-{e.name}") for c in CAUSES for e in sick(c)]
HEALTHY = [pytest.param(c, e, id=f"{c.slug}-{e.name}") for c in CAUSES for e in healthy(c)]

pytestmark = pytest.mark.slow


def observe(folder: Path, example: Example) -> tuple[int, dict[str, Any]]:
    script, report = folder / "program.py", folder / "report.json"
    script.write_text(example.code)
    command = [sys.executable, "-m", "graphdoc", "run", "--report", f"json:{report}", str(script)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=180)
    return done.returncode, json.loads(report.read_text())


@pytest.mark.parametrize(("cause", "example"), SICK)
def test_a_sick_example_is_told_at_its_line(cause: Cause, example: Example, tmp_path: Path) -> None:
    status, report = observe(tmp_path, example)
    assert status == (1 if example.fails else 0)
    assert report["diagnoses"], report["notes"]
    first = report["diagnoses"][0]
    assert first["cause"] == cause.slug
    told = [s for s in first["spans"] if s["role"] == "cause"]
    assert 1 <= len(told) <= 3
    wanted = [n for n, text in enumerate(example.code.splitlines(), 1) if text.strip() == example.line]
    assert any(s["line"] <= n <= s["end_line"] for s in told for n in wanted)


@pytest.mark.parametrize(("cause", "example"), HEALTHY)
def test_a_healthy_example_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    status, report = observe(tmp_path, example)
    assert status == 0
    assert report["diagnoses"] == []
