"""The instructions of a training step under graphdoc, counted by valgrind: for machines without a hardware counter.

    python benchmarks/instructions.py [--steps N] [--only NAME]

The same ratios as ``overhead.py --clock instructions``, the same on every run and on every loaded machine, but minutes
of time: the program starts itself again under ``valgrind --tool=callgrind`` and counts only while steps are measured.
Valgrind offers no AVX-512, so plain steps execute a few more instructions than they do outside of it.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOOKED_AT = 70
"""Steps before those that are counted: graphdoc looks closer at the first ones, and at a few of the later."""
STEPS = {"MLP": 20, "element-wise (PPO)": 20}
"""Steps that are counted, where they are short; 4 of the others."""
REQUESTS = {"zero": 1, "toggle": 2, "dump": 3, "start": 4, "stop": 5}
"""Callgrind's client requests, by their numbers in valgrind/callgrind.h."""
CODE = bytes.fromhex("4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3".replace(" ", ""))
"""A function of C that asks valgrind for something: the special instructions of valgrind.h for x86-64, which do nothing
elsewhere. Its argument is an array of the request and five words."""


class Counter:
    """Speaks to the valgrind that this process runs under."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._memory.write(CODE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._ask = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64 * 6))(address)

    def request(self, name: str, text: str = "") -> None:
        kept = ctypes.create_string_buffer(text.encode())
        base = ord("C") << 24 | ord("T") << 16
        self._ask((ctypes.c_uint64 * 6)(base + REQUESTS[name], ctypes.addressof(kept), 0, 0, 0, 0))


def count(only: str, steps: int) -> None:
    """Run under valgrind: one dump for each workload and mode, which bears their names."""
    import torch
    from overhead import MODES
    from workloads import WORKLOADS

    torch.set_num_threads(1)
    torch.manual_seed(0)
    counter = Counter()
    for name, (make, _) in WORKLOADS.items():
        if only.lower() not in name.lower():
            continue
        step = make()
        turns = steps or STEPS.get(name, 4)
        for mode, enter in MODES.items():
            with enter():  # type: ignore[attr-defined]
                for _ in range(LOOKED_AT if mode.startswith("graphdoc") else 3):
                    step()
                counter.request("start")  # the steps before run at a tenth of the time
                counter.request("zero")
                counter.request("toggle")
                for _ in range(turns):
                    step()
                counter.request("toggle")
                counter.request("dump", f"{name}|{mode}|{turns}")
                counter.request("stop")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=0, help="steps to be counted; by default as many as take a minute")
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    sys.path.insert(0, str(Path(__file__).parent.parent))
    if given.counted:
        count(given.only, given.steps)
        return 0
    if shutil.which("valgrind") is None or platform.machine() != "x86_64":
        raise SystemExit("instructions are counted by valgrind, on x86-64 alone; it is not here")
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no"]
        own = [sys.executable, __file__, "--counted", "--only", given.only, "--steps", str(given.steps)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        subprocess.run([*valgrind, f"--callgrind-out-file={folder}/counts", *own], check=True, env=environment)
        plain: dict[str, float] = {}
        dumps = sorted(Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        for text in (path.read_text() for path in dumps):
            told = re.search(r"^desc: Trigger: .*?([^:|]+)\|(.+)\|(\d+)$", text, re.MULTILINE)
            total = re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)
            if told is None or total is None:
                continue
            name, mode, turns = told[1].strip(), told[2], int(told[3])
            each = int(total[1]) / turns / 1e6
            print(f"{name:22}{mode:26}{each:9.2f}M{each / plain.setdefault(name, each):7.3f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
