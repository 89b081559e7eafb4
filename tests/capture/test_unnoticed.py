"""A program under observation prints, raises, computes and ends exactly as it does without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from corners import FAILING, FSDP2, GIVEN_BACK, HEALTHY
from observed import both, run, script

ENGINE = {"twice", "twice-anomaly", "create-graph", "version", "no-graph", "unused", "chained", "in-custom-backward"}
ENGINE |= {"thread-twice", "dtensor", "compiled-twice"}


def named(programs: dict[str, str]) -> list[Any]:
    """Those that torch.compile reads take seconds."""
    return [pytest.param(n, marks=pytest.mark.slow if n.startswith("compiled") else ()) for n in programs]


@pytest.mark.breadth(8)
@pytest.mark.parametrize("name", named(HEALTHY))
def test_a_healthy_program_does_the_same(name: str, tmp_path: Path) -> None:
    path = script(tmp_path, HEALTHY[name])
    plain, seen = both(path)
    assert plain.status == 0, plain.stderr
    assert seen.result == plain
    assert not seen.troubles


@pytest.mark.breadth(12)
@pytest.mark.parametrize("name", named(FAILING))
def test_a_failing_program_fails_the_same(name: str, tmp_path: Path) -> None:
    path = script(tmp_path, FAILING[name])
    plain, seen = both(path)
    assert seen.result == plain
    assert not seen.troubles
    if name in ENGINE:
        assert seen.only.raised is not None
        assert seen.only.raised.uncaught
        assert seen.only.raised.stack


@pytest.mark.breadth(3)
@pytest.mark.parametrize("mode", ["writes", "hidden", "cuts", "nonfinite", "nonfinite:0:all"])
@pytest.mark.parametrize("source", [GIVEN_BACK, FSDP2], ids=["given-back", "fsdp2"])
def test_a_second_look_reads_no_memory_that_was_given_back(source: str, mode: str, tmp_path: Path) -> None:
    seen = run(script(tmp_path, source), mode=f"probe:{mode}")
    assert seen.result.status == 0, seen.result.stderr
    assert not seen.troubles
