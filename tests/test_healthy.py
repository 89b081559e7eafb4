"""benchmarks/healthy.py: the list is whole, and a program is run as it is told there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PROGRAM = """
import time

import torch

net = torch.nn.Linear(4, 1).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
print(f"took {time.time()} s")
for step in range(100000):
    loss = net(torch.rand(8, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
"""


def test_the_list_says_where_each_program_is_and_what_is_published_is_its_length() -> None:
    programs = json.loads((BENCHMARKS / "healthy.json").read_text(encoding="utf-8"))
    for program in programs:
        assert re.fullmatch(r"[0-9a-f]{40}", program["commit"]), program
        assert re.search(r"\w+\.py\b", program["command"]) and program["steps"] > 0, program
    sound = [p for p in programs if "fault" not in p]
    page = (BENCHMARKS.parent / "docs" / "benchmark.md").read_text(encoding="utf-8")
    repositories = len({p["repository"] for p in sound})
    assert f"{len(sound)} public training programs of {repositories} repositories" in " ".join(page.split())


@pytest.mark.slow
def test_a_program_ends_after_its_steps_and_says_the_same_under_graphdoc(tmp_path: Path) -> None:
    folder = tmp_path / "sources" / "someone+something"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    listed = {"repository": "someone/something", "command": "train.py", "steps": 6, "clock": r"took \S+"}
    listed["small"] = [["train.py", "lr=0.1", "lr=0.01"]]
    (tmp_path / "list.json").write_text(json.dumps([listed]), encoding="utf-8")
    arguments = ["--sources", "sources", "--list", "list.json", "--out", "rows.jsonl"]
    environment = {"TMPDIR": str(tmp_path), "PATH": ""}
    subprocess.run([sys.executable, BENCHMARKS / "healthy.py", *arguments], cwd=tmp_path, env=environment, check=True)
    row = json.loads((tmp_path / "rows.jsonl").read_text(encoding="utf-8"))
    assert (row["alone"]["status"], row["alone"]["lines"]) == (0, 6)
    assert row["run"]["same"] and row["run"]["findings"] == []
    assert row["checked"]["measured"] == {"agree": 1}, row
