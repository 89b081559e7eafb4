"""All that wants a GPU, in eight minutes: the tests of ``tests/gpu``, and what a training step costs there.

    python benchmarks/gpu.py

It needs this folder, and a Python that has torch, pytest and what graphdoc itself needs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = ("-m", "pytest", "-q", "-o", "addopts=", "--durations=5", "tests/gpu")
COSTS = ("benchmarks/overhead.py", "--device", "cuda", "--rounds", "8", "--seconds", "0.1", "--only")
PARTS = ((300, TESTS), *((60, (*COSTS, name)) for name in ("MLP", "transformer", "convolution")))
"""Seconds that each part may take, and its command."""


def main() -> int:
    """One part after the other; one that takes too long is ended, and the next one runs."""
    failed = False
    for seconds, command in PARTS:
        try:
            failed |= subprocess.run([sys.executable, *command], cwd=ROOT, timeout=seconds).returncode != 0
        except subprocess.TimeoutExpired:
            print(f"ended after {seconds} s: {' '.join(command)}", flush=True)
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
