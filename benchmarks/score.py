"""How well a tool finds and mends the faults of fixtures/benchmark: cause, line, fix, alarms on healthy twins.

    python benchmarks/score.py graphdoc [--only 'nan_*'] [--jobs 2] [--out scores.jsonl]
    python benchmarks/score.py anomaly                    # PyTorch's anomaly mode alone: the lines that it names
    python benchmarks/score.py answers --folder DIR       # NAME.diff and NAME.toml from anywhere
    python benchmarks/score.py table scores.jsonl …       # the tables of docs/benchmark.md

fixtures/benchmark/README.md says what is counted.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parents[1] / "fixtures" / "benchmark"
SECONDS = 300
COUNTED = ("cause", "line", "fix", "twin")
LINES_COUNTED = 3  # a tool that names every line finds nothing

# Runs versions of a program, each in a fork with torch already imported: what each optimizer step had in its gradients
# and left in its parameters is kept beside it, with what was printed and the exit status.
RUNNER = """\
import json, os, runpy, sys, torch, torch._dynamo  # which every optimizer would import
from torch.optim.optimizer import register_optimizer_step_post_hook
steps, size = [], lambda t: float(t.detach().to_dense().double().abs().sum())
def note(optimizer, *_):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    steps.append([sorted(size(p) for p in params), sorted(size(p.grad) for p in params if p.grad is not None)])
register_optimizer_step_post_hook(note)
torch.autograd.set_detect_anomaly(sys.argv[1] == "anomaly")
first = os.environ.get("RANK", "0") == "0"
def child(script):
    if first:
        for number, kind in (1, "out"), (2, "err"):
            os.dup2(os.open(f"{script}.{kind}", os.O_CREAT | os.O_WRONLY), number)
    status, sys.argv = 0, [script]
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException as raised:
        status = 1
        sys.excepthook(type(raised), raised, raised.__traceback__)
    sys.stdout.flush(), sys.stderr.flush()
    if first:
        json.dump([status, steps], open(f"{script}.json", "w"))
    os._exit(status)
for script in sys.argv[2:]:
    os.waitpid(os.fork() or child(script), 0)
"""


@dataclass(frozen=True)
class Answer:
    """What a tool says: a cause (a slug of docs/causes.md), lines, best first, and a patch for `git apply`."""

    cause: str = ""
    lines: tuple[int, ...] = ()
    patch: str = ""
    alarm: bool = False


@dataclass(frozen=True)
class Ran:
    """A version of a program, run: for each optimizer step the sizes of its parameters and of their gradients."""

    status: int
    out: str
    err: str
    steps: list[list[list[float]]]


@dataclass(frozen=True, eq=False)  # each is itself
class Task:
    """One folder of fixtures/benchmark; the fields are the keys of its program.toml."""

    name: str
    title: str
    family: str
    report: list[str]
    ends: str
    cause: list[str]
    answer: str
    lines: list[str]
    patch: str
    twin: str
    launch: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return PROGRAMS / self.name

    @property
    def fixed(self) -> list[Path]:
        return sorted(self.folder.glob("fixed*.py"))

    def agrees(self, mine: Ran, theirs: Ran) -> bool:
        """Whether one version trains as the other does."""
        return alive(mine, theirs) if self.patch == "alive" else same(mine, theirs)


def tasks() -> list[Task]:
    """Every program of the benchmark, by name."""
    return [
        Task(path.parent.name, **tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted(PROGRAMS.glob("*/program.toml"))
    ]


def run(words: list[str], folder: Path) -> str:
    """What a command prints on stdout; nothing where it fails to end."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "NO_COLOR": "1"}
    env = {name: value for name, value in env.items() if not name.startswith("GRAPHDOC_")}
    piped = subprocess.PIPE
    started = subprocess.Popen(
        words,
        cwd=folder,
        env=env,
        stdout=piped,
        stderr=piped,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        return started.communicate(timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)  # ranks that wait for each other, too
        return ""


def ran(task: Task, *texts: str, mode: str = "plain") -> list[Ran]:
    """Versions of a program, run: each in a folder of its own, beside nothing that would give its fault away."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.py").write_text(RUNNER, encoding="utf-8")
        scripts = []
        for number, text in enumerate(texts):
            (folder / str(number)).mkdir()
            scripts.append(f"{number}/train.py")
            (folder / scripts[-1]).write_text(text, encoding="utf-8")
        for group in [[s] for s in scripts] if task.launch else [scripts]:
            run([sys.executable, *task.launch, "run.py", mode, *group], folder)
        return [_ran(folder / script) for script in scripts]


def _ran(script: Path) -> Ran:
    try:
        status, steps = json.loads(Path(f"{script}.json").read_text())
    except (OSError, ValueError):
        return Ran(1, "", "", [])
    return Ran(status, Path(f"{script}.out").read_text(), Path(f"{script}.err").read_text(), steps)


def graphdoc(task: Task, folder: Path, is_twin: bool) -> Answer:
    started = ["--", sys.executable, *task.launch, "train.py"] if task.launch else ["train.py"]
    run([sys.executable, "-m", "graphdoc", "run", "--report", "json:report.json", *started], folder)
    try:
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))["diagnoses"]
    except (OSError, ValueError, KeyError):
        return Answer(alarm=is_twin)
    if not found:
        return Answer()
    first = found[0]
    causes = [s for s in first["spans"] if s["role"] == "cause" and s["file"].endswith("train.py")]
    lines = [n for s in causes for n in range(s["line"], (s.get("end_line") or s["line"]) + 1)]
    patch = "" if is_twin else run([sys.executable, "-m", "graphdoc", "fix", "--diff"], folder)
    return Answer(first["cause"], tuple(lines), patch, alarm=True)


def anomaly(task: Task, folder: Path, _is_twin: bool) -> Answer:
    """The program's innermost frame of each traceback that anomaly mode or Python prints; it names no cause."""
    done = ran(task, (folder / "train.py").read_text(encoding="utf-8"), mode="anomaly")[0]
    blocks = done.err.split("Traceback")
    frames = [re.findall(r'File "[^"]*train\.py", line (\d+)', block) for block in blocks]
    return Answer(lines=tuple(int(f[-1]) for f in frames if f), alarm=done.status != 0)


def answers(task: Task, _folder: Path, is_twin: bool, given: Path) -> Answer:
    """A patch from anywhere: NAME.diff, and NAME.toml with `cause` and `lines` (numbers); NAME.twin.* for the twin."""
    name = task.name + (".twin" if is_twin else "")
    patch, said = given / f"{name}.diff", given / f"{name}.toml"
    told: dict[str, Any] = tomllib.loads(said.read_text(encoding="utf-8")) if said.exists() else {}
    text = patch.read_text(encoding="utf-8") if patch.exists() else ""
    return Answer(
        told.get("cause", ""), tuple(told.get("lines", ())), text, alarm=bool(text.strip() or told.get("cause"))
    )


def near(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-3, abs_tol=1e-6) for x, y in zip(a, b, strict=True))


def same(mine: Ran, theirs: Ran) -> bool:
    """Each step had the same gradients and left the same parameters; without steps, the same numbers were printed."""
    if mine.steps or theirs.steps:
        return len(mine.steps) == len(theirs.steps) and all(
            near(a, c) and near(b, d) for (a, b), (c, d) in zip(mine.steps, theirs.steps, strict=True)
        )
    numbers = [[float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", run.out)] for run in (mine, theirs)]
    return bool(numbers[0]) and near(*numbers)


def alive(mine: Ran, theirs: Ran) -> bool:
    """As many steps, every number finite, and as many parameters with a gradient that is not zero in the last step."""
    if len(mine.steps) != len(theirs.steps) or not mine.steps:
        return False
    finite = all(math.isfinite(x) for step in mine.steps for side in step for x in side)
    return finite and sum(g > 0 for g in mine.steps[-1][1]) == sum(g > 0 for g in theirs.steps[-1][1])


def mends(task: Task, patch: str) -> bool:
    """Whether the patch applies and gives a program that trains as an accepted one does."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = (task.folder / "train.py").read_text(encoding="utf-8")
        (folder / "train.py").write_text(before, encoding="utf-8")
        (folder / "p.diff").write_text(patch, encoding="utf-8")
        run(["git", "apply", "-p1", "p.diff"], folder)
        text = (folder / "train.py").read_text(encoding="utf-8")
    if text == before:
        return False
    accepted = [path.read_text(encoding="utf-8") for path in task.fixed]
    mine, *theirs = ran(task, text, *accepted)
    hidden = "retain_graph=True"
    return mine.status == 0 and any(
        task.agrees(mine, right) and text.count(hidden) <= version.count(hidden)
        for version, right in zip(accepted, theirs, strict=True)
    )


def score(task: Task, tool: str, ask: Any) -> dict[str, Any]:
    told = []
    for version in "train.py", "twin.py":
        with tempfile.TemporaryDirectory() as folder:  # the program alone, without what would give it away
            (Path(folder) / "train.py").write_text(
                (task.folder / version).read_text(encoding="utf-8"), encoding="utf-8"
            )
            told.append(ask(task, Path(folder), version == "twin.py"))
    said, twin = told
    source = (task.folder / "train.py").read_text(encoding="utf-8").splitlines()
    named = [source[n - 1].strip() for n in dict.fromkeys(said.lines) if 0 < n <= len(source)]
    return {
        "tool": tool,
        "name": task.name,
        "family": task.family,
        "said": said.cause,
        "named": list(dict.fromkeys(said.lines))[:LINES_COUNTED],
        "cause": None if tool == "anomaly" else said.cause in task.cause,
        "line": any(text in task.lines for text in named[:LINES_COUNTED]),
        "fix": None if tool == "anomaly" or task.patch == "none" else mends(task, said.patch),
        "twin": not twin.alarm,
        "twin_said": twin.cause,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """For each tool and family, how many programs were answered rightly."""
    text = ""
    for tool in dict.fromkeys(row["tool"] for row in rows):
        mine = [row for row in rows if row["tool"] == tool]
        text += f"\n| {tool} | programs | cause | line | fix | twins left alone |\n|---|---|---|---|---|---|\n"
        for family in [*sorted({row["family"] for row in mine}), ""]:
            part = [row for row in mine if not family or row["family"] == family]
            cells = []
            for key in COUNTED:
                told = [row[key] for row in part if row[key] is not None]
                cells.append(f"{sum(told)} of {len(told)}" if told else "–")
            shown = [family or "all", str(len(part)), *cells]
            text += "| " + " | ".join(shown if family else [f"**{cell}**" for cell in shown]) + " |\n"
    return text.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=["graphdoc", "anomaly", "answers", "table"])
    parser.add_argument("scores", nargs="*", type=Path, help="for `table`: files that --out has written")
    parser.add_argument("--only", default="*", help="a pattern of names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for `answers`: where the patches lie")
    parser.add_argument("--out", type=Path, help="append one JSON line for each program")
    asked = parser.parse_args()
    if asked.tool == "table":
        lines = [json.loads(line) for path in asked.scores for line in path.read_text().splitlines()]
        print(table(list({(row["tool"], row["name"]): row for row in lines}.values())))
        return
    asks = {"graphdoc": graphdoc, "anomaly": anomaly, "answers": lambda *task: answers(*task, asked.folder)}
    chosen = [task for task in tasks() if fnmatch.fnmatch(task.name, asked.only)]
    rows = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for row in pool.map(lambda task: score(task, asked.tool, asks[asked.tool]), chosen):
            rows.append(row)
            marks = "  ".join(f"{key} {'-' if row[key] is None else 'ok' if row[key] else 'NO'}" for key in COUNTED)
            print(f"{row['name']:36} {marks}  {row['said']} {row['named']} {row['twin_said']}", flush=True)
            if asked.out:
                with asked.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
