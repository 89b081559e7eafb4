"""Whether memory stays flat however long a run is: the growth over 100,000 steps against that over 1,000.

python benchmarks/memory.py [--steps N]
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from workloads import machine

from graphdoc.capture.witness import Witness

ALLOWED = 8.0
"""MiB that the long run may need more than the short one: what the allocator does by itself."""


def resident() -> float:
    """MiB of memory that this process has in use now."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    given = parser.parse_args()
    print(machine())
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(8, 4)

    def step() -> None:
        with torch.no_grad():
            net(x)
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    with tempfile.TemporaryDirectory() as out:
        witness = Witness(torch, out, "observe")
        witness.install()
        at: dict[int, float] = {}
        print(f"{'steps':>10}{'memory':>14}{'events kept':>14}")
        for i in range(1, given.steps + 1):
            step()
            if i in (1_000, given.steps // 10, given.steps):
                gc.collect()
                at[i] = resident()
                print(f"{i:10}{at[i]:10.1f} MiB{len(witness.journal.entries()):14}", flush=True)
        witness.undo()
    growth = at[given.steps] - at[1_000]
    print(f"growth after the first 1000 steps: {growth:.1f} MiB (limit {ALLOWED:g} MiB)")
    return 0 if growth <= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
