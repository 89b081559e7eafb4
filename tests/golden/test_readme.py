"""README's session is a report that graphdoc really prints: the golden one of the program that it names."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_session_is_the_golden_report_of_its_program() -> None:
    readme = (ROOT / "README.md").read_text()
    report = (ROOT / "tests/golden/reports/fixtures/ppo_three_networks_a.txt").read_text()
    assert "`fixtures/ppo_three_networks_a/train.py`" in readme
    assert report in readme
    assert len(report.splitlines()) <= 30
