"""Every diagnosis and patch, from Evidence that was recorded once: what a change of the diagnosis changes, in a minute
and without torch.

python benchmarks/corpus.py record FOLDER [CASES …]  runs every example of a cause and fixture, or what lies below
                                                     CASES as NAME/train.py instead, and keeps its Evidence
python benchmarks/corpus.py diagnose FOLDER          prints what is told of each, and its patches, as JSON lines
python benchmarks/corpus.py time FOLDER              the slowest diagnoses, and how often each parses its program

Write what ``diagnose`` prints to a file before a change and after it, and compare the two with ``diff``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import FOLDER as EXAMPLES

from graphdoc.diagnose import findings_for
from graphdoc.evidence import Evidence
from graphdoc.finding import Remedy
from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build
from graphdoc.second_run import add_later, nonfinite, take_look, take_over
from graphdoc.source.module import Source

ROOT = Path(__file__).resolve().parents[1]


def record(folder: Path, cases: list[Path]) -> None:
    """Run every program that is not there yet, each ``train.py`` with the files beside it."""
    from confusion import observe

    from graphdoc.probe import question

    examples = [] if cases else sorted(EXAMPLES.glob("*/*.py"))
    programs = {f"{p.parent.name}/{p.stem}": p for p in examples}
    for given in cases or [ROOT / "fixtures"]:
        programs |= {f"{given.resolve().name}/{p.parent.name}": p for p in sorted(given.glob("*/train.py"))}
    for name, program in programs.items():
        kept = folder / name
        if (kept / "done").exists():
            continue
        kept.mkdir(parents=True, exist_ok=True)
        script = kept / "train.py"
        for file in program.parent.iterdir() if program.name == script.name else [program]:
            if file.is_file():
                shutil.copy(file, script if file == program else kept)
        evidence = observe(script, kept / "first", "observe")
        mode = question(evidence) if evidence is not None else ""
        if mode:
            observe(script, kept / "second", mode)
        (kept / "done").touch()
        print(name, flush=True)


def recorded(folder: Path) -> Iterator[tuple[str, Evidence]]:
    """Name and Evidence of each program that left one, with what a second run has told."""
    for done in sorted(folder.rglob("done")):
        first, second = (sorted(done.parent.glob(f"{which}/evidence-*.json")) for which in ("first", "second"))
        if first:
            evidence = Evidence.read(str(first[0]))
            if second:
                evidence = joined(evidence, Evidence.read(str(second[0])))
            yield done.parent.relative_to(folder).as_posix(), evidence


def joined(first: Evidence, second: Evidence) -> Evidence:
    """The two as ``graphdoc run`` puts them together (``graphdoc/probe.py``): a look for nan goes into the first."""
    if nonfinite(first.signs) is not None:
        take_look(first, second, second.probe)
        return first
    if first.raised is not None:
        return take_over(first, second, second.probe)
    add_later(first, second, whole=True)
    return second


def told(evidence: Evidence) -> dict[str, Any]:
    """All that is told of a run, with the text of every patch or the reason why there is none."""
    found, notes = findings_for(evidence)
    sources = {file: Source(file, text) for file, text in evidence.sources.items()}

    def patch(remedy: Remedy) -> dict[str, str] | str:
        try:
            return build(remedy.kind, sources, remedy.args)
        except CannotFix as e:
            return str(e)

    findings = [
        {"cause": f.cause.slug} | asdict(f.finding) | {"patches": [patch(r) for r in f.finding.remedies]} for f in found
    ]
    return {"findings": findings, "notes": notes}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=["record", "diagnose", "time"])
    options.add_argument("folder", type=Path)
    options.add_argument("cases", type=Path, nargs="*")
    chosen = options.parse_args()
    folder = chosen.folder.resolve()
    if chosen.what == "record":
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        record(folder, chosen.cases)
        return 0
    rows: list[tuple[float, int, str]] = []
    parsed = 0
    parse = ast.parse

    def counted(source: Any, *args: Any, **named: Any) -> Any:
        nonlocal parsed
        parsed += isinstance(source, str) and source.count("\n") > 3  # a whole file, not an expression of it
        return parse(source, *args, **named)

    ast.parse = counted  # type: ignore[assignment]
    for name, evidence in recorded(folder):
        parsed, start = 0, time.perf_counter()
        answer = told(evidence)
        rows.append((time.perf_counter() - start, parsed, name))
        if chosen.what == "diagnose":
            line = json.dumps({"program": name} | answer, ensure_ascii=False, sort_keys=True, default=str)
            print(line.replace(str(folder), "CORPUS"))
    if chosen.what == "time":
        seconds = sorted(row[0] for row in rows)
        print(f"{len(rows)} programs, {sum(seconds):.1f} s; median {seconds[len(seconds) // 2] * 1000:.0f} ms")
        for spent, times, name in sorted(rows, reverse=True)[:10]:
            print(f"{spent * 1000:7.0f} ms  {times:3} parses  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
