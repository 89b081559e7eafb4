"""What a training step costs under graphdoc, beside plain Python and PyTorch's own anomaly mode, in one process.

    python benchmarks/overhead.py [--rounds N] [--seconds S] [--clock wall|cpu|cycles|instructions] [--device cuda]

The modes take turns within every round, so that a busy machine disturbs all of them alike; each is compared with plain
Python in the same round, and the median of these ratios is told. On a machine that others load, too, times say little.
Linux counts the instructions of the process, which are the same every time, and its cycles, which others only
slow down by way of shared caches. What graphdoc does once, in the first steps of a run, is left out: a run has
thousands of steps.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import truediv
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
def called() -> Iterator[None]:
    """Anomaly mode with a formatter that does nothing: what PyTorch's call into Python for every node costs alone."""
    import torch.fx.traceback as module

    original = module.format_stack
    module.format_stack = list  # type: ignore[assignment]
    try:
        with anomaly(False):
            yield
    finally:
        module.format_stack = original


@contextmanager
def observed(mode: str) -> Iterator[None]:
    """As a run of that mode is observed."""
    from graphdoc.capture import attach
    from graphdoc.capture.witness import Witness

    with tempfile.TemporaryDirectory() as out:
        witness = Witness(torch, out, mode)
        witness.install()
        if "no-audit" not in mode.split(":"):
            attach(witness, "audit")
        try:
            yield
        finally:
            witness.undo()


MODES: dict[str, Callable[[], object]] = {
    "plain": plain,
    "anomaly": lambda: anomaly(True),
    "anomaly, check_nan=False": lambda: anomaly(False),
    "PyTorch's call alone": called,
    "graphdoc, crashes only": lambda: observed(CRASHES_ONLY),
    "graphdoc": lambda: observed("observe"),
    "graphdoc, learned": lambda: observed("observe:learned"),
}
CRASHES_ONLY = "observe:no-audit:nan-off"
"""The mode of ``graphdoc run --no-audit --nan off``."""


WARM = 30
"""Steps before the clock starts in each turn: graphdoc looks closer at the first calls of each place."""

CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


COUNTERS = {"cycles": 0, "instructions": 1}
"""Hardware counters, by their number in perf_event_open(2)."""


def counted(event: str) -> Callable[[], float]:
    """A clock that counts what the processor has done for this process in user mode, in thousand millions.

    Args:
        event: one of ``COUNTERS``.

    Raises:
        SystemExit: the system has no such counter, or does not let us read it.
    """
    number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
    attributes = bytearray(128)
    struct.pack_into("IIQ", attributes, 0, 0, len(attributes), COUNTERS[event])  # type 0: hardware
    struct.pack_into("Q", attributes, 40, 1 << 1 | 1 << 5 | 1 << 6)  # inherited by threads, without kernel and host
    given = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    file = ctypes.CDLL(None).syscall(number, given, 0, -1, -1, 0) if sys.platform == "linux" and number else -1
    if file < 0:
        raise SystemExit(f"{event} cannot be counted here")
    return lambda: struct.unpack("Q", os.read(file, 8))[0] / 1e9  # type: ignore[no-any-return]


def timed(step: Step, count: int, clock: Callable[[], float]) -> float:
    """Seconds for one step, from the mean of ``count`` steps; a GPU has ended them all."""
    start = clock()
    for _ in range(count):
        step()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return (clock() - start) / count


def measure(step: Step, rounds: int, seconds: float, clock: Callable[[], float]) -> tuple[float, dict[str, float]]:
    """Median seconds of a plain step, and the median ratio to it of each mode.

    Args:
        seconds: length of one turn under plain Python.
    """
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
    plain = times.pop("plain")
    ratios = {mode: statistics.median(map(truediv, values, plain)) for mode, values in times.items()}
    return statistics.median(plain), ratios


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=15, help="a single one is too noisy for the limits: none is judged"
    )
    parser.add_argument("--seconds", type=float, default=0.15, help="length of one turn under plain Python")
    parser.add_argument(
        "--clock", choices=(*CLOCKS, *COUNTERS), default="wall", help="cycles where other programs share the machine"
    )
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_default_device(given.device)
    clock = CLOCKS.get(given.clock) or counted(given.clock)
    unit = "ms" if given.clock in CLOCKS else "M"
    torch.manual_seed(0)
    print(machine())
    print(f"{'training step':22}{'plain':>10}" + "".join(f"{m:>26}" for m in list(MODES)[1:]) + f"{'limit':>8}")
    good = True
    for name, (make, limit) in WORKLOADS.items():
        if given.only.lower() not in name.lower():
            continue
        base, ratios = measure(make(), given.rounds, given.seconds, clock)
        cheapest = min(ratios["anomaly"], ratios["anomaly, check_nan=False"]) - 1
        met = ratios["graphdoc"] <= limit and (limit < 1.2 or ratios["graphdoc"] - 1 <= cheapest / 4)
        met |= given.rounds == 1
        good &= met
        row = f"{name:22}{base * 1e3:8.2f}{unit:2}" + "".join(f"{r:25.2f}x" for r in ratios.values())
        print(row + f"{limit:7.2f}x" + ("" if met else "  not met"), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
