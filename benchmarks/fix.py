"""What trying a fix costs: the time of ``graphdoc fix --diff`` beside that of the script itself.

Two programs with the same fault (a carried state): one that is over soon, and one that would train on long behind the
point of the failure. ``--tree`` takes graphdoc from another checkout, to compare two versions. Told are seconds on the
clock and, because a machine with other work makes nothing of those, seconds of processor (user and system of the whole
tree of processes). The least of all rounds is taken: other work only adds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = """\
import sys, time, torch
cell, head = torch.nn.LSTMCell(3, 8), torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
state = (torch.zeros(1, 8), torch.zeros(1, 8))
for _ in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]))
    state = cell(torch.randn(1, 3), state)
    loss = head(state[0]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MENDED = PROGRAM + "    state = tuple(t.detach() for t in state)\n"


_TICK = 0.02
"""Seconds between two looks at the processes; what a process uses after the last one is not seen."""
_TICKS = os.sysconf("SC_CLK_TCK")
Seconds = tuple[float, float]
"""On the clock, and of processor."""


def timed(folder: Path, words: list[str], tree: str) -> Seconds:
    """What a command takes, with all the processes below it."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if tree:
        env["PYTHONPATH"] = tree
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    used: dict[int, float] = {}
    while process.poll() is None:
        used.update(below(process.pid))
        time.sleep(_TICK)
    return time.monotonic() - began, sum(used.values())


def below(root: int) -> dict[int, float]:
    """Seconds of processor that a process and each one below it have used so far, by their numbers (proc_pid_stat(5)).

    What ``wait4`` tells leaves out a run that was stopped: of the processes that end with the first one of their
    namespace nobody is told (pid_namespaces(7)).
    """
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)], used[int(name)] = int(words[1]), (int(words[11]) + int(words[12])) / _TICKS
    inside = {root}
    while more := {pid for pid, parent in parents.items() if parent in inside} - inside:
        inside |= more
    return {pid: used[pid] for pid in inside if pid in used}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tree", default="", help="a checkout of graphdoc (default: the installed one)")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    columns = ("crash", "mended, whole", "fix --diff", "again")
    head = "   seconds, least; beside it to the crash alone"
    print(f"{'program':20}{'':>10}" + "".join(f"{c:>16}" for c in columns) + head)
    for name, words in (("40 steps", ["40", "0"]), ("600 steps of 50 ms", ["600", "0.05"])):
        rows = []
        for _ in range(given.rounds):
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                (folder / "train.py").write_text(PROGRAM)
                (folder / "mended.py").write_text(MENDED)
                crash = timed(folder, ["train.py", *words], "")
                whole = timed(folder, ["mended.py", *words], "")
                timed(folder, ["-m", "graphdoc", "run", "train.py", *words], given.tree)
                first, again = (timed(folder, ["-m", "graphdoc", "fix", "--diff"], given.tree) for _ in range(2))
                rows.append((crash, whole, first, again))
        for number, kind in enumerate(("clock", "processor")):
            cells = [min(cell[number] for cell in column) for column in zip(*rows, strict=True)]
            shown = "".join(f"{f'{s:.1f} ({s / cells[0]:.1f}x)':>16}" for s in cells)
            print(f"{name:20}{kind:>10}{shown}", flush=True)


if __name__ == "__main__":
    main()
