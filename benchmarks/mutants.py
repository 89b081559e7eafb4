"""How often graphdoc names the fault that was put into a healthy program, its line, and a patch that trains as before.

python benchmarks/mutants.py [--most N] [PROGRAM.py ...]

The programs are the healthy examples of the causes by default. One fault at a time (benchmarks/mutations.py) is put
into each; the truth is the program as it was. A mutant counts where autograd raises an error or it trains otherwise;
of one that trains in the same way nothing should be told.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutated import Mutant
from mutations import kept_graphs, mutants

EXAMPLES = Path(__file__).parent.parent / "tests" / "causes" / "examples"
TRACER = """\
import atexit, json, runpy, sys
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
torch.manual_seed(0)
steps, ids = [], {}
def note(optimizer, args, kwargs):
    kept = ids.setdefault(id(optimizer), (len(ids), optimizer))
    parameters = [p for g in optimizer.param_groups for p in g["params"]]
    gradients = [p.grad for p in parameters if p.grad is not None]
    total = lambda tensors: sum(float(t.detach().double().abs().sum()) for t in tensors)
    steps.append([kept[0], len(gradients), total(parameters), total(gradients)])
register_optimizer_step_post_hook(note)
atexit.register(lambda: json.dump(steps, open("steps.json", "w")))
runpy.run_path("train.py", run_name="__main__")
"""
"""Writes of each optimizer step who stepped, how many gradients there were, and the sizes of weights and gradients."""
ORDINARY = ("TypeError", "NameError", "AttributeError", "UnboundLocalError", "ValueError", "IndexError", "KeyError")
LIMIT = 300

Steps = list[list[float]]


def train(folder: Path, text: str) -> tuple[str, Steps]:
    """Run a program alone: the last line of its error, empty where there was none, and its optimizer steps."""
    (folder / "train.py").write_text(text)
    (folder / "steps.json").unlink(missing_ok=True)
    done = _python(folder, "-c", TRACER)
    kept = folder / "steps.json"
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return (last if done.returncode else ""), json.loads(kept.read_text()) if kept.exists() else []


def alike(one: Steps, other: Steps) -> bool:
    """Whether two runs made the same steps."""
    pairs = [(a, b) for mine, its in zip(one, other, strict=False) for a, b in zip(mine, its, strict=True)]
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=2e-4, abs_tol=1e-6) for a, b in pairs)


def examine(folder: Path, mutant: Mutant, wanted: Steps) -> dict[str, str]:
    """What graphdoc says of a mutant: its cause, whether the line was told, and what its patch is worth."""
    (folder / "train.py").write_text(mutant.text)
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    _python(folder, "-m", "graphdoc", "run", "--report", "json:report.json", "train.py")
    found = json.loads(report.read_text())["diagnoses"] if report.exists() else []
    if not found:
        return {"cause": "", "line": "", "fix": "", "verified": ""}
    told = {n for span in found[0]["spans"] for n in range(span["line"], span["end_line"] + 1)}
    said = _python(folder, "-m", "graphdoc", "fix", "--diff")
    fix = "none"
    if said.stdout.strip():
        patched = subprocess.run(["patch", "-s", "-p1"], cwd=folder, input=said.stdout, text=True, capture_output=True)
        error, steps = train(folder, (folder / "train.py").read_text())
        fix = "bad" if patched.returncode or error else "right" if alike(steps, wanted) else "runs"
    line = "yes" if told & set(mutant.lines) else "no"
    verified = "yes" if ", verified]" in said.stderr else ""
    return {"cause": found[0]["cause"], "line": line, "fix": fix, "verified": verified}


def judge(program: Path, folder: Path, most: int, table: dict[str, Counter[str]]) -> None:
    """Try up to ``most`` mutants of one program and count what was said of them."""
    text = program.read_text()
    error, wanted = train(folder, text)
    if error or not wanted or not alike(train(folder, text)[1], wanted):
        print(f"{program}: not usable ({error or 'no steps, or not the same twice'})", flush=True)
        return
    waiting = mutants(text)[:most]
    while waiting:
        mutant = waiting.pop(0)
        error, steps = train(folder, mutant.text)
        if error.startswith(ORDINARY):
            continue
        kept = kept_graphs(mutant) if "second time" in error and "+" not in mutant.kind else None
        waiting += [kept] if kept is not None else []
        state = "crash" if error else "same" if alike(steps, wanted) else "changed"
        said = examine(folder, mutant, wanted)
        counts = table.setdefault(mutant.kind, Counter())
        counts[state] += 1
        told = bool(said["cause"])
        counts["false alarm"] += state == "same" and told
        if state != "same":
            counts["told"] += told
            counts["line"] += said["line"] == "yes"
            counts["right"] += said["fix"] == "right"
            counts["verified, not right"] += said["verified"] == "yes" and said["fix"] != "right"
        words = " ".join(f"{key}={value}" for key, value in said.items() if value) or "nothing told"
        print(f"{program.stem}:{mutant.lines[0]} {mutant.kind} {state}: {words}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--most", type=int, default=8, help="mutants of one program")
    given = parser.parse_args()
    healthy = [p for p in sorted(EXAMPLES.glob("*/*.py")) if "\n# told at:" not in p.read_text()]
    table: dict[str, Counter[str]] = {}
    for program in given.programs or healthy:
        with tempfile.TemporaryDirectory() as folder:
            judge(program.resolve(), Path(folder), given.most, table)
    columns = ("crash", "changed", "same", "told", "line", "right", "verified, not right", "false alarm")
    print(f"\n{'fault':28}" + "".join(f"{c:>{max(9, len(c) + 2)}}" for c in columns))
    for kind, counts in sorted(table.items()):
        print(f"{kind:28}" + "".join(f"{counts[c]:>{max(9, len(c) + 2)}}" for c in columns))
    return 1 if any(counts["false alarm"] for counts in table.values()) else 0


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
        errors="replace",
    )


if __name__ == "__main__":
    sys.exit(main())
