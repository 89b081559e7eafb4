"""Ranks of one job that write into one folder: one tells the failure whole, the others where they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from graphdoc.capture.written_evidence import brief, told_by
from graphdoc.evidence import Evidence, Frame, Process, Raised
from graphdoc.launch import Request
from graphdoc.launch.keep import Kept
from graphdoc.processes import MOST_DAMAGED, read_processes

JOB = """\
import os, time
import torch

rank = int(os.environ["RANK"])
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
if rank % 2:
    raise RuntimeError(f"[{rank}] Connection closed by peer [10.0.0.{rank}]:4711")
loss.backward()
"""


def failed(rank: int, message: str = "it broke 1", line: int = 3, written: float = 0.0) -> Evidence:
    raised = Raised("RuntimeError", message, [Frame("train.py", line)])
    return Evidence(process=Process(pid=rank, rank=rank, world_size=9, written=written), raised=raised)


def kept(folder: Path, *documents: dict[str, Any], ended: bool = True) -> Kept:
    files = []
    for document in documents:
        files.append(folder / f"evidence-{document['process']['pid']}.json")
        files[-1].write_text(json.dumps(document))
    return Kept(folder, Request(["train.py"], cwd=str(folder)), 1, evidence=tuple(files), ended=ended)


def rank_of(folder: Path, rank: int, host: str = "") -> subprocess.CompletedProcess[str]:
    """One rank of the job, started by nobody that graphdoc could wrap."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRAPHDOC", "COV"))}
    env |= {"GRAPHDOC_OBSERVE": str(folder / "seen"), "RANK": str(rank), "WORLD_SIZE": "5"}
    command = [sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240)


@pytest.mark.slow
def test_what_failed_first_is_told_whole_and_the_others_briefly(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(JOB)
    for rank in (2, 1, 4, 3):
        assert rank_of(tmp_path, rank).returncode == 1
    documents = {}
    for file in (tmp_path / "seen").glob("evidence-*.json"):
        document = json.loads(file.read_text())
        documents[document["process"]["rank"]] = (document, file.stat().st_size, file.name)
        assert file.name == f"evidence-{document['process']['pid']}@{os.uname().nodename}.json"
    whole, short = documents[2], documents[4]
    assert whole[0]["sources"] and not short[0]["sources"] and not short[0]["nodes"] and short[1] < whole[1]
    assert whole[2] == f"evidence-{short[0]['extras']['told_by']}.json"
    assert documents[3][0]["extras"]["told_by"] and documents[3][0]["raised"]["stack"][-1]["line"] == 9
    show = [sys.executable, "-m", "graphdoc", "show", "seen"]
    told = subprocess.run(show, cwd=tmp_path, capture_output=True, text=True, timeout=240).stdout
    assert "error[GD107]" in told and "--> train.py:10:1" in told
    words = " ".join(told.split())
    assert "of 5 ranks, rank 2 failed first; rank 4 failed in the same way; ranks 1, 3 ended with another" in words
    assert "most of them at train.py:9" in words
    assert "rank 0 raised nothing: only waited, or ended by the launcher, or still running" in words


def test_whoever_comes_first_tells_it_and_is_asked_to_at_every_writing(tmp_path: Path) -> None:
    out = str(tmp_path)
    first = failed(1)
    assert told_by(out, first, False) == told_by(out, first, True) == ""
    assert told_by(out, failed(1, line=4), False) == ""
    assert told_by(out, failed(1, "it broke otherwise"), False) == ""
    alone = failed(-1)
    assert told_by(out, alone, False) == told_by(out, alone, True) == ""
    assert len(list(tmp_path.glob("first-*"))) == 3


def test_one_that_was_ended_before_it_could_write_is_told_by_another(tmp_path: Path) -> None:
    out = str(tmp_path)
    assert told_by(out, failed(1), False) == ""
    (claim,) = tmp_path.glob("first-*")
    claim.write_text("4711")
    assert told_by(out, failed(2), False) == "4711"
    assert told_by(out, failed(2), True) == ""
    (tmp_path / "evidence-4711.json").touch()
    assert told_by(out, failed(2), True) == "4711"


def test_the_whole_account_is_read_in_the_place_of_a_brief_one(tmp_path: Path) -> None:
    whole, other = asdict(failed(5, written=9.0)), failed(2, written=1.0)
    assert read_processes(kept(tmp_path, brief(other, "5").to_json(), whole)).first == Evidence.from_json(whole)
    # What another file says is no reason to tell of another failure.
    strange = asdict(failed(5, "something else", written=9.0))
    found = read_processes(kept(tmp_path, brief(other, "5").to_json(), strange)).first
    assert found is not None and found.process.rank == 2
    found = read_processes(kept(tmp_path, brief(other, "../../etc/passwd").to_json(), whole)).first
    assert found is not None and found.process.rank == 2


def test_a_folder_that_is_still_filling_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    run = kept(tmp_path, *(asdict(failed(n, written=n)) for n in range(6)), ended=False)
    for file in run.evidence[1:]:
        file.write_text('{"version": 1, "proc')
    gone = tmp_path / "evidence-77.json"
    found = read_processes(Kept(tmp_path, run.request, 1, evidence=(*run.evidence, gone), ended=False))
    assert found.first is not None and found.first.process.rank == 0
    assert sum("truncated" in note for note in found.notes) == MOST_DAMAGED
    assert "3 more evidence files cannot be read" in found.notes
    assert found.notes[-1].endswith("ranks 1-8 raised nothing: only waited, or ended by the launcher, or still running")


def test_a_file_of_which_only_the_head_can_be_read_gives_way_to_the_next(tmp_path: Path) -> None:
    damaged = {**asdict(failed(1)), "nodes": 5}
    found = read_processes(kept(tmp_path, damaged, asdict(failed(2, written=2.0))))
    assert found.first is not None and found.first.process.rank == 2
    assert "damaged" in found.notes[0]
