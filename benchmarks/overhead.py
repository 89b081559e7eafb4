"""What a training step costs under graphdoc, beside plain Python and PyTorch's own anomaly mode, in one process.

    python benchmarks/overhead.py [--rounds N] [--seconds S] [--clock wall|cpu]

The modes take turns within every round, so that a busy machine disturbs all of them alike; the medians over the rounds
are compared. What graphdoc does once, in the first steps of a run, is left out: a run has thousands of steps.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from workloads import WORKLOADS, Step, machine


@contextmanager
def plain() -> Iterator[None]:
    yield


@contextmanager
def anomaly(check_nan: bool) -> Iterator[None]:
    torch.autograd.set_detect_anomaly(True, check_nan)
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(False)


@contextmanager
def observed() -> Iterator[None]:
    from graphdoc.capture.witness import Witness

    with tempfile.TemporaryDirectory() as out:
        witness = Witness(torch, out, "observe")
        witness.install()
        try:
            yield
        finally:
            witness.undo()


MODES: dict[str, Callable[[], object]] = {
    "plain": plain,
    "anomaly": lambda: anomaly(True),
    "anomaly, check_nan=False": lambda: anomaly(False),
    "graphdoc": observed,
}


WARM = 15
"""Steps before the clock starts in each turn: graphdoc looks closer at the first calls of each place."""

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def timed(step: Step, count: int, clock: Callable[[], float]) -> float:
    """Seconds for one step, from the mean of ``count`` steps."""
    start = clock()
    for _ in range(count):
        step()
    return (clock() - start) / count


def measure(step: Step, rounds: int, seconds: float, clock: Callable[[], float]) -> dict[str, float]:
    """Median seconds for one step in each mode; each turn lasts about ``seconds`` under plain Python."""
    for _ in range(20):
        step()
    count = max(3, int(seconds / timed(step, 20, clock)))
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(rounds):
        for mode, enter in MODES.items():
            # Anomaly mode is slow and is not the one in question: a third of the steps is enough for it.
            turns = max(3, count // 3) if mode.startswith("anomaly") else count
            with enter():  # type: ignore[attr-defined]
                timed(step, WARM, clock)
                times[mode].append(timed(step, turns, clock))
    return {mode: statistics.median(values) for mode, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one turn under plain Python")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu where other programs share the machine")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    given = parser.parse_args()
    torch.manual_seed(0)
    print(machine())
    print(f"{'training step':22}{'plain':>10}" + "".join(f"{m:>26}" for m in list(MODES)[1:]) + f"{'limit':>8}")
    good = True
    for name, (make, limit) in WORKLOADS.items():
        if given.only.lower() not in name.lower():
            continue
        times = measure(make(), given.rounds, given.seconds, CLOCKS[given.clock])
        base = times["plain"]
        ratios = {mode: times[mode] / base for mode in list(MODES)[1:]}
        cheapest = min(ratios["anomaly"], ratios["anomaly, check_nan=False"]) - 1
        met = ratios["graphdoc"] <= limit and (limit < 1.2 or ratios["graphdoc"] - 1 <= cheapest / 4)
        good &= met
        row = f"{name:22}{base * 1e3:8.2f}ms" + "".join(f"{r:25.2f}x" for r in ratios.values())
        print(row + f"{limit:7.2f}x" + ("" if met else "  not met"), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
