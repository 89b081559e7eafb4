"""All that wants a GPU, in eight minutes: the tests of ``tests/gpu``, and what a training step costs there.

    python benchmarks/gpu.py                       # where the GPU is
    python benchmarks/gpu.py --pack --python 3.12  # before that, where pip works: what else that Python needs
    python benchmarks/gpu.py --dry                 # on a CPU: nothing is wrong with what is here

A machine that has a torch and nothing else takes the rest from ``.gpu`` in this folder, which ``--pack`` has filled.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / ".gpu"
NEEDS = ("typer>=0.15", "rich>=13.9", "libcst>=1.8", "pytest>=8.3", "pytest-xdist>=3.6")
SYSTEMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
SECONDS = 480.0
ALONE = "waits or memory"
"""Tests during which nothing else may use the GPU."""


def pack(version: str) -> int:
    """Put the packages that graphdoc and its tests need beside torch into ``SITE``, for that version of Python."""
    systems = [word for name in SYSTEMS for word in ("--platform", name)]
    words = ["--only-binary", ":all:", "--python-version", version, *systems, "--target", str(SITE), "--upgrade"]
    return subprocess.run([sys.executable, "-m", "pip", "install", "-q", *words, *NEEDS], check=False).returncode


def parts(device: str, jobs: int) -> list[tuple[float, list[str]]]:
    """Seconds that each part may take, and its command."""
    dry = device == "cpu"
    tests = ["-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-o", "addopts=", "tests/gpu"]
    beside = ["-n", str(jobs)] if importlib.util.find_spec("xdist") and jobs > 1 else []
    turns = ["--rounds", "1" if dry else "8", "--seconds", "0.01" if dry else "0.1"]
    costs = ["benchmarks/overhead.py", "--device", device, *turns, "--only"]
    few = " and (carried or amp or recurrent)" if dry else ""
    return [
        (220, [*tests, "--durations=5", *beside, "-k", f"not ({ALONE}){few}"]),
        (90, [*tests, "-k", ALONE]),
        *((55.0, [*costs, name]) for name in ("MLP", "transformer", "convolution")),
    ]


def main() -> int:
    """One part after the other; one that takes too long is ended, and the next one runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="get what is needed, and run nothing")
    parser.add_argument("--python", default="{}.{}".format(*sys.version_info), help="the version to get it for")
    parser.add_argument("--dry", action="store_true", help="on the CPU, and few of the tests")
    parser.add_argument("--jobs", type=int, default=min(6, len(os.sched_getaffinity(0)) // 2))
    given = parser.parse_args()
    if given.pack:
        return pack(given.python)
    if SITE.is_dir():
        sys.path.append(str(SITE))
    paths = [str(ROOT), *([str(SITE)] if SITE.is_dir() else []), os.environ.get("PYTHONPATH", "")]
    device = "cpu" if given.dry else "cuda"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONUNBUFFERED": "1",
        "GRAPHDOC_TEST_DEVICE": device,
    }
    slower = 4 if given.dry else 1  # what is tried is the script, and the machine may be a small one
    end, failed = time.monotonic() + slower * SECONDS, []
    for seconds, command in parts(device, given.jobs):
        words, left = " ".join(command), min(slower * seconds, end - time.monotonic())
        try:
            status = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, timeout=left).returncode
            failed += [f"exit status {status}: {words}"] if status else []
        except subprocess.TimeoutExpired:
            failed.append(f"ended after {left:.0f} s: {words}")
    print("\n".join(failed) or "all passed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
