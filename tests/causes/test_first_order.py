"""An inner gradient without a graph is told where something stepped gets no gradient by it, and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import Example, examples
from seen import observe

SLUG = "missing-create-graph"
SILENT = [e for e in examples(SLUG) if not e.fails]


@pytest.mark.parametrize("example", [e for e in SILENT if e.line], ids=lambda e: e.name)
def test_what_enters_the_inner_loss_alone_is_told(example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, example.code)
    assert seen.slugs == [SLUG]
    assert seen.lines("cause") == [example.line]
    remedy = seen.found[0].finding.remedies[0]
    assert (remedy.kind, remedy.args["name"], remedy.args["value"]) == ("set_keyword", "create_graph", "True")


@pytest.mark.parametrize("example", [e for e in SILENT if not e.line], ids=lambda e: e.name)
def test_a_choice_is_left_alone(example: Example, tmp_path: Path) -> None:
    seen = observe(tmp_path, example.code)
    assert seen.result.status == 0, seen.result.stderr
    assert seen.slugs == []
