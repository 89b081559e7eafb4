"""How long `graphdoc show` takes over a job of many ranks, and `graphdoc explain` over its log; and how much memory.

python benchmarks/ranks.py [RANKS] [--all-whole] [--log RANKS]

Real processes of one rank each fail under GRAPHDOC_OBSERVE: the first in backward, a second in the same way, others in
the collective in which they wait. What they leave is copied for all the other ranks. ``--all-whole`` gives every rank
the whole Evidence, as ranks leave it that fail in the same instant and are ended before they can see each other's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """\
import os, sys
import torch

model = torch.nn.Sequential(*[m for _ in range(24) for m in (torch.nn.Linear(32, 32), torch.nn.LayerNorm(32))])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
kept = torch.zeros(4, 32)
for step in range(30):
    kept = model(kept)
    if os.environ["ROLE"] == "waits" and step == 20:
        raise RuntimeError(f"[Rank {os.environ['RANK']}] Connection closed by peer [10.0.0.{os.environ['RANK']}]:4711")
    loss = kept.pow(2).mean()
    if os.environ["ROLE"] != "waits" or step == 0:
        loss.backward()
        optimizer.step()
    if os.environ["ROLE"] == "waits":
        kept = kept.detach()
"""
READ = """\
import re, runpy, sys, time
sys.argv = ["graphdoc", *sys.argv[1:]]
begin = time.perf_counter()
try:
    runpy.run_module("graphdoc", run_name="__main__")
except SystemExit:
    pass
peak = int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) // 1024
wall, cpu = time.perf_counter() - begin, time.process_time()
print(f"{wall:.1f} s wall, {cpu:.1f} s of processor, {peak} MiB at most", file=sys.stderr)
"""


def fail(folder: Path, out: Path, ranks: int, rank: int, role: str) -> Path:
    """Run one rank to its end; the Evidence that it has left."""
    known = set(out.glob("evidence-*.json"))
    environment = {**os.environ, "GRAPHDOC_OBSERVE": str(out), "ROLE": role, "RANK": str(rank)}
    environment |= {"WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "train.py"], cwd=folder, env=environment, stderr=subprocess.DEVNULL)
    (made,) = set(out.glob("evidence-*.json")) - known
    return made


def fill(out: Path, ranks: int, like: dict[str, Path]) -> int:
    """What all the other ranks leave, made of what ``like`` ones have left; the bytes that lie there then."""
    texts = {role: json.loads(file.read_text()) for role, file in like.items()}
    first = texts["first"]["process"]["written"]
    taken = {json.loads(file.read_text())["process"]["rank"] for file in out.glob("evidence-*.json")}
    for rank in range(ranks):
        if rank in taken:
            continue
        role = "same" if rank % 4 == 0 else "waits"
        document, pid = texts[role], 100_000 + rank
        document["process"] |= {"rank": rank, "pid": pid, "written": first + 1 + rank / ranks}
        (out / f"evidence-{pid}.json").write_text(json.dumps(document, separators=(",", ":")))
        for state in ("started", "loading", "observed", "ended"):
            (out / f"process-{pid}.{state}").touch()
    return sum(file.stat().st_size for file in out.iterdir())


def measure(words: list[str]) -> None:
    """Run a command of graphdoc's, with the end of what it says and what it took."""
    done = subprocess.run([sys.executable, "-c", READ, *words], capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    print(*(line for line in lines if "error[" in line or "rank" in line), sep="\n")
    print(f"{words[0]}: {done.stderr.strip()}")


def write_log(path: Path, ranks: int) -> None:
    """The log of a job in which every rank has printed the traceback of the same failure."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/job/train.py", line 61, in <module>',
        "    loss.backward()",
    ]
    lines += [f'  File "/opt/torch/{n}.py", line {n}, in call\n    return run(*args)' for n in range(3, 9)]
    lines += ["RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors)."]
    lines = "\n".join(lines).splitlines()
    with path.open("w") as stream:
        for start in range(0, ranks, 16):  # sixteen at a time, line by line in turn
            for line in lines:
                stream.writelines(f"[rank{rank}]: {line}\n" for rank in range(start, min(ranks, start + 16)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", nargs="?", type=int, default=10_000)
    parser.add_argument("--all-whole", action="store_true")
    parser.add_argument("--log", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name, "seen")
        (folder / "train.py").write_text(PROGRAM)
        first = fail(folder, out, given.ranks, 7, "first")
        like = {"first": first, "same": fail(folder, out, given.ranks, 11, "first")}
        waited = fail(folder, out, given.ranks, 12, "waits")
        like["waits"] = fail(folder, out, given.ranks, 13, "waits")
        print({role: f"{file.stat().st_size:,} bytes" for role, file in {**like, "waited first": waited}.items()})
        if given.all_whole:
            like |= {"same": first, "waits": waited}
        begin = time.perf_counter()
        size = fill(out, given.ranks, like)
        print(f"{given.ranks} ranks, {size / 1e6:.0f} MB, written in {time.perf_counter() - begin:.0f} s")
        if given.ranks:
            measure(["show", str(out)])
        log = folder / "job.log"
        write_log(log, given.log)
        print(f"log of {given.log} ranks, {log.stat().st_size / 1e6:.0f} MB")
        measure(["explain", str(log)])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
