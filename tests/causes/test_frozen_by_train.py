"""What a program has unfrozen and ``train()`` freezes before the first step is told; a frozen backbone is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import Example, examples
from seen import observe

SLUG = "frozen-parameters"
SILENT = [e for e in examples(SLUG) if not e.fails]


@pytest.mark.parametrize("example", [e for e in SILENT if e.line], ids=lambda e: e.name)
def test_what_was_unfrozen_in_vain_is_told(example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, example.code)
    assert seen.slugs == [SLUG]
    assert example.line in seen.lines("cause")
    assert seen.found[0].finding.confidence == "likely"  # that it was to learn is the reading of its source


@pytest.mark.parametrize("example", [e for e in SILENT if not e.line], ids=lambda e: e.name)
def test_a_part_that_is_meant_to_stay_frozen_is_left_alone(example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, example.code)
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == []
