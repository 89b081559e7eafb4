"""Healthy examples of GD3, GD4, GD5 and GD8 are left alone by ``graphdoc run``; tests/golden has the sick ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from examples import Example, healthy

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause

CAUSES = [c for c in all_causes() if c.code.startswith(("GD3", "GD4", "GD5", "GD8"))]
HEALTHY = [pytest.param(c, e, id=f"{c.slug}-{e.name}") for c in CAUSES for e in healthy(c)]

pytestmark = pytest.mark.slow


def observe(folder: Path, example: Example) -> tuple[int, dict[str, Any]]:
    script, report = folder / "program.py", folder / "report.json"
    script.write_text(example.code)
    command = [sys.executable, "-m", "graphdoc", "run", "--report", f"json:{report}", str(script)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=180)
    return done.returncode, json.loads(report.read_text())


@pytest.mark.parametrize(("cause", "example"), HEALTHY)
def test_a_healthy_example_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    status, report = observe(tmp_path, example)
    assert status == 0
    assert report["diagnoses"] == []
