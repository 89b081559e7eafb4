"""No cause is lost unnoticed: what has examples and golden reports has a cause, and its file says something."""

from __future__ import annotations

from pathlib import Path

import graphdoc.causes
from graphdoc.causes import all_causes

TESTS = Path(__file__).resolve().parents[1]
LEAST = 1000
"""Characters of the shortest module that can hold a page and a test of the model."""


def test_every_cause_that_has_examples_or_golden_reports_is_there() -> None:
    slugs = {c.slug for c in all_causes()}
    examples = {p.name for p in (TESTS / "causes" / "examples").iterdir() if any(p.glob("*.py"))}
    reports = {p.name for p in (TESTS / "golden" / "reports").iterdir() if any(p.glob("*.txt"))}
    assert examples == slugs
    assert reports - {"fixtures"} <= slugs


def test_no_module_of_a_cause_is_empty() -> None:
    rooms = Path(graphdoc.causes.__file__).parent
    modules = [p for p in rooms.glob("*/*.py") if p.name != "__init__.py"]
    assert [str(p.relative_to(rooms)) for p in modules if len(p.read_text(encoding="utf-8")) < LEAST] == []
    assert len(modules) == len(all_causes())
