"""What observation adds to the start of a program: ``import torch`` with the start-up hook and without.

python benchmarks/startup.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from graphdoc.launch import HOOK

LIMIT = 0.3
"""Seconds."""


def start(environment: dict[str, str]) -> tuple[float, float]:
    """Wall-clock and processor seconds of a process that imports torch and ends."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], env=environment, check=True)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    from workloads import machine

    print(machine())
    with tempfile.TemporaryDirectory() as out:
        plain = dict(os.environ)
        hooked = {**plain, "PYTHONPATH": str(HOOK), "GRAPHDOC_OUT": out, "GRAPHDOC_KIND": "script"}
        start(plain)
        start(hooked)
        rounds = [(start(plain), start(hooked)) for _ in range(given.rounds)]
    wall = statistics.median(h[0] - p[0] for p, h in rounds)
    cpu = statistics.median(h[1] - p[1] for p, h in rounds)
    base = statistics.median(p[0] for p, _ in rounds)
    print(
        f"import torch: {base:.2f} s; with observation {wall:+.2f} s ({cpu:+.2f} s of processor time), limit {LIMIT} s"
    )
    return 0 if wall <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
