"""Healthy examples of GD3, GD4, GD5 and GD8 are left alone, with all second runs; tests/golden has the sick ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import told_in_forks
from examples import Example, healthy

from graphdoc.causes import all_causes
from graphdoc.causes.base import Cause

CAUSES = [c for c in all_causes() if c.code.startswith(("GD3", "GD4", "GD5", "GD8"))]
HEALTHY = [pytest.param(c, e, id=f"{c.slug}-{e.name}") for c in CAUSES for e in healthy(c)]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("cause", "example"), HEALTHY)
def test_a_healthy_example_is_left_alone(cause: Cause, example: Example, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(example.code)
    report, _ = told_in_forks.run(tmp_path)
    assert report.run.exit_status == 0
    assert report.diagnoses == ()
