"""How often graphdoc names the fault that was put into a healthy program, its line, and a patch that trains as before.

python benchmarks/mutants.py [--most N] [--seed N] [--only KIND,KIND] [PROGRAM.py ...]

The programs are the healthy examples of the causes by default. One fault at a time (benchmarks/mutations.py) is put
into each; the truth is the program as it was. A mutant counts where autograd raises an error or it trains otherwise;
of one that trains in the same way nothing should be told. A note without a diagnosis is counted apart: it tells what
graphdoc takes for the author's choice. Of each program ``--most`` mutants are drawn, of as many kinds as there are.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, str(Path(__file__).parent))

from mutated import Mutant
from mutations import kept_graphs, mutants

EXAMPLES = Path(__file__).parent.parent / "tests" / "causes" / "examples"
ORDINARY = ("TypeError", "NameError", "AttributeError", "UnboundLocalError", "ValueError", "IndexError", "KeyError")
LIMIT = 300

Steps = list[list[float]]


def train(folder: Path, text: str) -> tuple[str, Steps]:
    """Run a program alone, in a fork: the last line of its error, empty where there was none, and its steps."""
    (folder / "train.py").write_text(text)
    (folder / "steps.json").write_text("[]")
    process = os.fork()
    if process == 0:
        os.chdir(folder)
        with open("train.err", "w") as errors, open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(errors.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            signal.alarm(LIMIT)
            os._exit(_train())
    _, status = os.waitpid(process, 0)
    last = ((folder / "train.err").read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
    return (last if status else ""), json.loads((folder / "steps.json").read_text())


def _train() -> int:
    """Run ``train.py`` in this process; leave who stepped at each step, how many gradients there were, and the sizes of
    these and of their weights."""
    steps: Steps = []
    ids: dict[int, tuple[int, object]] = {}

    def total(tensors: list[torch.Tensor]) -> float:
        return sum(float(t.detach().double().abs().sum()) for t in tensors)

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        kept = ids.setdefault(id(optimizer), (len(ids), optimizer))
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        trained = [p for p in parameters if p.grad is not None]
        gradients = [p.grad for p in trained if p.grad is not None]
        steps.append([kept[0], len(gradients), total(trained), total(gradients)])

    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    register_optimizer_step_post_hook(note)
    sys.argv, status = ["train.py"], 0
    sys.path.insert(0, os.getcwd())
    try:
        runpy.run_path("train.py", run_name="__main__")
    except BaseException as e:
        status = not isinstance(e, SystemExit) or bool(e.code)
        sys.stderr.write("".join(traceback.format_exception_only(e)))
    Path("steps.json").write_text(json.dumps(steps))
    sys.stdout.flush()
    return int(status)


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
    said = json.loads(report.read_text())  # an error where there is no report: silence is another thing
    found = said["diagnoses"]
    if not found:
        return {"cause": "", "note": "yes" if said["notes"] else "", "line": "", "fix": "", "verified": ""}
    told = {n for span in found[0]["spans"] for n in range(span["line"], span["end_line"] + 1)}
    proposed = _python(folder, "-m", "graphdoc", "fix", "--diff")
    fix = "none"
    if proposed.stdout.strip():
        patched = subprocess.run(
            ["patch", "-s", "-p1"], cwd=folder, input=proposed.stdout, text=True, capture_output=True
        )
        error, steps = train(folder, (folder / "train.py").read_text())
        fix = "bad" if patched.returncode or error else "right" if alike(steps, wanted) else "runs"
    line = "yes" if told & set(mutant.lines) else "no"
    verified = "yes" if ", verified]" in proposed.stderr else ""
    return {"cause": found[0]["cause"], "line": line, "fix": fix, "verified": verified}


def drawn(found: list[Mutant], most: int, chance: random.Random) -> list[Mutant]:
    """Some of the mutants of a program: one of a kind before a second of any."""
    chance.shuffle(found)
    seen: Counter[str] = Counter()
    order = []
    for mutant in found:
        order.append(seen[mutant.kind])
        seen[mutant.kind] += 1
    return [m for _, m in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])][:most]


def judge(program: Path, folder: Path, most: int, seed: int, only: list[str], table: dict[str, Counter[str]]) -> None:
    """Try up to ``most`` mutants of one program and count what was said of them."""
    text = program.read_text()
    error, wanted = train(folder, text)
    if error or not wanted or not alike(train(folder, text)[1], wanted):
        print(f"{program}: not usable ({error or 'no steps, or not the same twice'})", flush=True)
        return
    waiting = drawn(
        [m for m in mutants(text) if not only or m.kind in only], most, random.Random(f"{seed} {program.name}")
    )
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
            counts["noted"] += bool(said.get("note"))
            counts["line"] += said["line"] == "yes"
            counts["right"] += said["fix"] == "right"
            counts["verified, not right"] += said["verified"] == "yes" and said["fix"] != "right"
        words = " ".join(f"{key}={value}" for key, value in said.items() if value) or "nothing told"
        print(f"{program.stem}:{mutant.lines[0]} {mutant.kind} {state}: {words}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", type=Path)
    parser.add_argument("--most", type=int, default=8, help="mutants of one program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda words: words.split(","), default=[], help="kinds of mutants")
    given = parser.parse_args()
    healthy = [p for p in sorted(EXAMPLES.glob("*/*.py")) if "\n# told at:" not in p.read_text()]
    table: dict[str, Counter[str]] = {}
    for program in given.programs or healthy:
        with tempfile.TemporaryDirectory() as folder:
            judge(program.resolve(), Path(folder), given.most, given.seed, given.only, table)
    columns = ("crash", "changed", "same", "told", "noted", "line", "right", "verified, not right", "false alarm")
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
