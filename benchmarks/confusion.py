"""Confusion table: the true cause of every sick example in the catalogue against the cause that graphdoc tells.

usage: python benchmarks/confusion.py [CODE_OR_SLUG …]

Each example is run for real, in a forked child, with the second run where the first leaves a question.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples import Example, healthy, sick
from forked import run_forked

from graphdoc.causes import all_causes
from graphdoc.diagnose import findings_for
from graphdoc.evidence import Evidence
from graphdoc.probe import question

NOTHING = "(nothing)"


def observe(script: Path, out: Path, mode: str) -> Evidence | None:
    """The evidence of one run of a script."""

    def install() -> None:
        from graphdoc.capture import install

        install(str(out), mode)

    out.mkdir()
    run_forked(script, setup=install)
    files = sorted(out.glob("evidence-*.json"))
    return Evidence.read(str(files[0])) if files else None


def told(example: Example) -> str:
    """The slug that graphdoc tells for an example, or ``(nothing)``."""
    with tempfile.TemporaryDirectory(prefix="confusion-") as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(example.code)
        evidence = observe(script, folder / "first", "observe")
        if evidence is None:
            return NOTHING
        if mode := question(evidence):
            evidence = observe(script, folder / "second", mode) or evidence
        found, _ = findings_for(evidence)
        return found[0].cause.slug if found else NOTHING


def main() -> int:
    wanted = {w.lower() for w in sys.argv[1:]}
    causes = [c for c in all_causes() if not wanted or {c.slug, c.code.lower()} & wanted]
    table: dict[str, Counter[str]] = {}
    alone = [0, 0]
    for cause in causes:
        for example in sick(cause):
            table.setdefault(cause.slug, Counter())[told(example)] += 1
        for example in healthy(cause):
            alone[1] += 1
            alone[0] += told(example) == NOTHING
        if sys.stderr.isatty():
            print(f"\r{cause.slug:40}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    right = total = 0
    print(f"{'true cause':34} {'told':>5}  others")
    for slug, row in table.items():
        right += row[slug]
        total += sum(row.values())
        others = ", ".join(f"{name} ×{n}" for name, n in row.most_common() if name != slug)
        print(f"{slug:34} {row[slug]:>2}/{sum(row.values())}  {others}")
    print(f"\n{right} of {total} sick examples told as they are; {alone[0]} of {alone[1]} healthy ones left alone")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raise SystemExit(main())
