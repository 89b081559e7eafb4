"""What graphdoc tells of public programs that nothing is wrong with, which should be nothing.

python benchmarks/healthy.py --sources DIR [--only WORD] [--runs alone,run,checked] [--limit SECONDS] [--out FILE]

benchmarks/healthy.json lists the programs: repository, commit, folder, command line, and how each is made small. DIR
holds a checkout of each repository, as OWNER+NAME. Its program is copied, what "small" names is replaced in the copy,
and it is run with the stand-ins for data sets of benchmarks/stand_ins: alone, under `graphdoc run`, and under
`graphdoc run --check-gradients`. A row of the table has the seconds of each, what was found by each, whether the
program said the same as without graphdoc, and how the measured gradients were judged.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RUNS = {"alone": [], "run": ["-m", "graphdoc", "run"], "checked": ["-m", "graphdoc", "run", "--check-gradients"]}
MEASURED = {
    "agree": r"are those of the loss",
    "held": r"with what the program itself cuts off held",
    "none": r"are given no gradient",
    "zeros": r"given zeros alone",
    "another": r"has another gradient",
    "independent": r"does not depend on",
    "unclear": r"not clear of rounding",
    "not measured": r"(?:not|nothing) (?:is |was |were |can be |could be )?(?:measured|checked)",
}
"""Words of the report, and what each says of a gradient."""


@dataclass(frozen=True)
class Ran:
    """How a run ended, what it said, and the report, where there is one."""

    seconds: float
    status: int | None
    said: str
    complained: str
    report: dict[str, Any] | None


def prepare(program: dict[str, Any], sources: Path, folder: Path) -> Path:
    """A copy of the program, made small, and the folder that it runs in."""
    copy = folder / "program"
    shutil.copytree(sources / program["repository"].replace("/", "+"), copy, symlinks=True)
    for name, pattern, replacement in program.get("small", []):
        for file in copy.glob(name):
            text = file.read_text()
            changed = re.sub(pattern, replacement, text)
            if changed == text and "*" not in name:
                raise SystemExit(f"{program['repository']}: {pattern} is not in {name}")
            file.write_text(changed)
    runs_in = copy / program.get("folder", ".")
    for kind, name in program.get("files", []):
        subprocess.run([sys.executable, HERE / "stand_ins/files.py", kind, name], cwd=runs_in, check=True)
    return runs_in


def run(program: dict[str, Any], sources: Path, before: list[str], limit: float) -> Ran:
    """Run a fresh copy of the program, after the words `before`."""
    with tempfile.TemporaryDirectory() as temporary:
        # The same path each time: programs print where they write.
        folder = Path(tempfile.gettempdir(), "graphdoc-healthy")
        shutil.rmtree(folder, ignore_errors=True)
        runs_in = prepare(program, sources, folder)
        report = Path(temporary, "report.json")
        options = ["--report", f"json:{report}"] if before else []
        path = [*(folder / "program" / p for p in program.get("path", [])), HERE / "stand_ins"]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(p) for p in path),
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "COLUMNS": "100",
            "STAND_IN_STEPS": str(program.get("steps", 0)),
            "STAND_IN_IMAGES": str(program.get("images", 256)),
        }
        begin = time.perf_counter()
        done = subprocess.Popen(
            [sys.executable, *before, *options, *shlex.split(program["command"])],
            cwd=runs_in,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, complained = done.communicate(timeout=limit)
            status: int | None = done.returncode
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            said, complained = done.communicate()
            status = None
        seconds = time.perf_counter() - begin
        if "clock" in program:
            said = re.sub(program["clock"], "TIME", said)
        told = json.loads(report.read_text()) if report.exists() else None
        return Ran(round(seconds, 1), status, said, complained, told)


def same(first: Ran, other: Ran, again: Callable[[], Ran]) -> bool | None:
    """Whether a program ends and says what it does alone.

    Where it does not say the same, it is run alone once more: lines that differ between two runs alone, such as
    seconds, are not compared. None where a run was ended for its time, or where the number of lines differs alone.
    """
    if first.status is None or other.status is None:
        return None
    if (first.status, first.said) == (other.status, other.said):
        return True
    alone, once_more, observed = (r.said.splitlines() for r in (first, again(), other))
    if len(alone) != len(once_more):
        return None
    compared = [a == c for a, b, c in zip(alone, once_more, observed, strict=False) if a == b]
    return first.status == other.status and len(alone) == len(observed) and all(compared)


def measured(report: dict[str, Any] | None) -> dict[str, int]:
    """How the measured gradients were judged, counted."""
    told = " ".join((report or {}).get("notes", []))
    return dict(Counter(key for key, pattern in MEASURED.items() for _ in re.findall(pattern, told)))


def examine(program: dict[str, Any], sources: Path, limit: float, runs: list[str]) -> dict[str, Any]:
    """One row: for each kind of run its seconds, status, findings, notes and whether the program said the same."""
    row: dict[str, Any] = {"program": f"{program['repository']}: {program.get('folder', '.')} {program['command']}"}

    @cache
    def again() -> Ran:
        return run(program, sources, [], limit)

    alone = run(program, sources, [], limit)
    row["alone"] = {"seconds": alone.seconds, "status": alone.status, "lines": len(alone.said.splitlines())}
    if alone.status != 0:
        row["alone"]["end"] = alone.complained[-600:]
        return row
    for name in runs:
        if name == "alone":
            continue
        done = run(program, sources, RUNS[name], limit)
        row[name] = {
            "seconds": done.seconds,
            "status": done.status,
            "same": same(alone, done, again),
            "findings": None if done.report is None else [f["code"] for f in done.report["diagnoses"]],
            "notes": (done.report or {}).get("notes", []),
            "told": done.complained[-6000:],
        }
        if name == "checked":
            row[name]["measured"] = measured(done.report)
    return row


def cells(row: dict[str, Any]) -> str:
    """A row as a line of Markdown."""
    words = [row["program"], f"{row['alone']['seconds']} s, {row['alone']['status']}"]
    for name in ("run", "checked"):
        if name not in row:
            continue
        of = row[name]
        found = "no report" if of["findings"] is None else " ".join(of["findings"]) or "-"
        judged = " ".join(f"{key}={n}" for key, n in of.get("measured", {}).items())
        said = {True: "", False: "OTHER OUTPUT", None: "over time"}[of["same"]]
        words.append(" ".join(w for w in (f"{of['seconds']} s,", found, judged, said) if w))
    return "| " + " | ".join(words) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, default=HERE / "healthy.json")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--runs", type=lambda words: words.split(","), default=list(RUNS))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    print("| program | " + " | ".join(given.runs) + " |\n|---" + "|---" * len(given.runs) + "|")
    for program in json.loads(given.list.read_text()):
        if given.only not in f"{program['repository']} {program.get('folder', '.')} {program['command']}":
            continue
        row = examine(program, given.sources, given.limit, given.runs)
        print(cells(row), flush=True)
        if given.out:
            with given.out.open("a") as out:
                out.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
