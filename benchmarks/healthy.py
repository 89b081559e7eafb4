"""What graphdoc tells of programs that nothing is wrong with, which should be nothing.

python benchmarks/healthy.py [--runs alone,run,checked] [--limit SECONDS] LIST

Each line of LIST is a program, as FOLDER, a tab, and its command line (`train.py --epochs 1`). It is run alone, under
`graphdoc run` and under `graphdoc run --check-gradients`; a row of the table has the seconds of each, what was found by
each, and how the measured gradients were judged.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

RUNS = {"alone": [], "run": ["-m", "graphdoc", "run"], "checked": ["-m", "graphdoc", "run", "--check-gradients"]}
MEASURED = {
    "agree": r"are those of the loss",
    "held": r"with what the program itself cuts off held",
    "none": r"are given no gradient",
    "zeros": r"given zeros alone",
    "another": r"has another gradient",
    "independent": r"does not depend on",
    "unclear": r"not clear of rounding",
}
"""Words of the report, and what each says of a gradient."""


def examine(folder: Path, command: list[str], limit: float, runs: list[str]) -> list[str]:
    """The cells of a row: seconds and exit status alone, seconds and findings under graphdoc."""
    cells = []
    for name in runs:
        before = RUNS[name]
        kept = folder / f"graphdoc-{name}"
        report = kept.with_suffix(".json")
        report.unlink(missing_ok=True)
        options = ["--report", f"json:{report}"] if before else []
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, *before, *options, *command],
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            cells.append(f"over {limit:.0f} s")
            continue
        seconds = f"{time.perf_counter() - start:.1f} s"
        kept.with_suffix(".txt").write_text(done.stderr)
        if not before:
            cells.append(f"{seconds}, {done.returncode}")
            if done.returncode:
                break
            continue
        found = json.loads(report.read_text())["diagnoses"] if report.exists() else None
        words = "no report" if found is None else " ".join(f["code"] for f in found) or "-"
        told = " ".join(done.stderr.split())
        counted = Counter(key for key, pattern in MEASURED.items() for _ in re.findall(pattern, told))
        measured = " ".join(f"{key}={n}" for key, n in counted.items()) if name == "checked" else ""
        failed = f" ends with {done.returncode}" if done.returncode else ""
        cells.append(f"{seconds}, {words} {measured}".rstrip() + failed)
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--runs", type=lambda words: words.split(","), default=list(RUNS))
    given = parser.parse_args()
    print("| program | " + " | ".join(given.runs) + " |\n|---" + "|---" * len(given.runs) + "|")
    for line in given.list.read_text().splitlines():
        folder, command = line.split("\t")
        row = examine(Path(folder).resolve(), shlex.split(command), given.limit, given.runs)
        print(f"| {folder} {command} | " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
