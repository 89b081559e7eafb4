"""PyTorch's own tests under graphdoc, against the same tests without it: which of them end otherwise.

    python benchmarks/pytorch_tests.py FOLDER [FILE …] [-k EXPRESSION]

FOLDER is ``test`` of PyTorch's sources, those of the installed version or of one near it (Debian's source package
``pytorch`` has them). The tests need ``expecttest``. What ends otherwise is run once more, alone and both ways, because
some tests do not always end alike by themselves. The exit status is 1 if any is left that differs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

FILES = ("test_autograd.py", "test_nn.py", "optim", "test_functional_optim.py", "autograd/test_functional.py")
WAYS = {"plain": ("-m", "pytest"), "graphdoc": ("-m", "graphdoc", "run", "-m", "pytest")}
LONGEST = 3 * 3600.0
"""Seconds that the tests of one file may take."""

Outcomes = dict[str, str]
"""The outcome of each test by its name."""


def outcomes(way: str, target: str, more: Sequence[str]) -> tuple[Outcomes, float]:
    """Run the tests in an empty folder; what each ended with, and the seconds that all of them took."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [target, "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *more]
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        start = time.monotonic()
        ended = subprocess.run(
            [sys.executable, *WAYS[way], *words], cwd=folder, env=environment, capture_output=True, timeout=LONGEST
        )
        seconds = time.monotonic() - start
        if not report.exists():
            raise SystemExit(f"{way} {target}: pytest left no report\n{ended.stderr.decode(errors='replace')[-2000:]}")
        return dict(map(_outcome, ET.parse(report).iter("testcase"))), seconds


def _outcome(case: ET.Element) -> tuple[str, str]:
    told = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
    return f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}", told


def differing(plain: Outcomes, seen: Outcomes) -> list[str]:
    return sorted(name for name in plain.keys() | seen.keys() if plain.get(name) != seen.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*", default=FILES)
    parser.add_argument("-k", dest="only", metavar="EXPRESSION", help="tests whose names match, as pytest reads it")
    given = parser.parse_args()
    left = 0
    for file in given.files:
        path = given.folder.resolve() / file
        if not path.exists():
            print(f"{file}: not there")
            continue
        more = ["-k", given.only] if given.only else []
        ran = {way: outcomes(way, str(path), more) for way in WAYS}
        (plain, took), (seen, took_seen) = ran["plain"], ran["graphdoc"]
        count = Counter(plain.values())
        print(f"{file}: {len(plain)} tests, {dict(count)}, time {took_seen / took:.2f}", flush=True)
        for name in differing(plain, seen):
            alone = ["-k", " and ".join(name.split("::"))]
            again = {way: outcomes(way, str(path), alone)[0].get(name, "not run") for way in WAYS}
            stays = again["plain"] != again["graphdoc"]
            left += stays
            print(f"  {name}: {plain.get(name)}, under graphdoc {seen.get(name)}; alone {again}", flush=True)
    print(f"{left} differ")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
