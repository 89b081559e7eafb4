"""How far a trial has come: its step, and the seconds that are left, off the trace that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphdoc.capture.trials.trace_end import LEAST, PATIENCE
from graphdoc.standing import Standing


def _calls(steps: range, optimizers: int = 1) -> list[dict[str, Any]]:
    """A backward call and a step of each optimizer, as a trace has them."""
    found: list[dict[str, Any]] = [{"k": "start", "rank": -1}]
    for n in steps:
        for o in range(optimizers):
            index = 2 * (n * optimizers + o)
            found.append({"k": "backward", "n": n, "e": index, "place": ["train.py", 3]})
            found.append({"k": "step", "n": n, "e": index + 1, "o": o, "place": ["train.py", 4], "p": 1.0})
    return found


class Run:
    """A run that writes a trace; a second passes with each look at it."""

    def __init__(self, folder: Path, clock: list[float], steps: int, point: int, seconds: float) -> None:
        self.file, self.clock = folder / "trace-7.jsonl", clock
        self.standing = Standing(folder, steps, point, seconds)

    def __call__(self, *records: dict[str, Any], text: str = "") -> str:
        with self.file.open("a") as stream:
            stream.write("".join(json.dumps(record) + "\n" for record in records) + text)
        told = str(self.standing)
        self.clock[0] += 1.0
        return told


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("graphdoc.standing.time.monotonic", lambda: now[0])
    return now


def test_its_step_beside_those_before_the_failure(tmp_path: Path, clock: list[float]) -> None:
    standing = Standing(tmp_path, 3, 6, 0.0)
    assert str(standing) == ""
    run = Run(tmp_path, clock, 3, 6, 0.0)
    assert run() == ""
    assert run(*_calls(range(2))).startswith("step 2 of 3")
    assert run(text='{"k": "step", "n": 2, "e": 5, "o"').startswith("step 2 of 3")  # half a line
    assert run(text=': 0, "p": 1.0}\n').startswith("step 3 of 3")
    assert run(*_calls(range(3, 4))).startswith("step 4, past the failure")
    assert str(standing).startswith("step 4, past the failure")


def test_several_optimizers_make_a_step_together_and_later_ones_are_counted(tmp_path: Path, clock: list[float]) -> None:
    run = Run(tmp_path, clock, 0, -1, 0.0)
    assert run(*_calls(range(5), 2)) == "step 5"
    assert run({"k": "count", "steps": 600, "calls": 700, "e": 1300}) == "step 300"


def test_the_seconds_are_those_of_the_original_until_its_own_pace_is_known(tmp_path: Path, clock: list[float]) -> None:
    run = Run(tmp_path, clock, 50, 100, 30.0)
    assert [run(), run()] == ["about 30 s left of this run", "about 29 s left of this run"]
    assert run(*_calls(range(1))) == "step 1 of 50, about 28 s left of this run"
    # Eleven calls and steps a second: 89 until the failure, and the seconds behind it.
    assert run(*_calls(range(1, 6))) == f"step 6 of 50, about {89 / 11 + PATIENCE:.0f} s left of this run"


def test_a_run_that_ends_at_the_point_says_what_it_is_for(tmp_path: Path, clock: list[float]) -> None:
    run = Run(tmp_path, clock, 50, 100, 30.0)
    run.standing = Standing(tmp_path, 50, 100, 30.0, "looking closer", goes_on=False)
    run(*_calls(range(1)))
    run()
    assert run(*_calls(range(1, 6))) == f"looking closer, step 6 of 50, about {89 / 11 * 2:.0f} s left of this run"
    assert run() == f"looking closer, step 6 of 50, about {89 / 11 * 2 - 1:.0f} s left of this run"  # a long step


def test_a_slow_program_has_told_enough_a_few_seconds_behind_the_failure(tmp_path: Path, clock: list[float]) -> None:
    run = Run(tmp_path, clock, 1, 2, 1.0)
    run(*_calls(range(1)))
    run()
    assert run({"k": "backward", "n": 1, "e": 2}) == f"step 1 of 1, about {LEAST} s left of this run"
    assert run({"k": "step", "n": 1, "e": 3, "o": 0}) == "step 2, past the failure, about 23 s left of this run"
