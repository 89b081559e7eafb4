"""``--capture learned`` tells the cause and places that the full capture tells, or a sentence: never another place."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import indent

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from told_in_forks import run

from graphdoc.model import Diagnosis, Report
from graphdoc.second_run import SEEN_AGAIN

BEGIN = """\
import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
net, other = nn.Linear(4, 4), nn.Linear(4, 4)
head = nn.Linear(4, 1)
parameters = [*net.parameters(), *other.parameters(), *head.parameters()]
opt = torch.optim.SGD(parameters, lr=1e-3)
second = torch.optim.Adam(other.parameters(), lr=1e-3)
kept, total = [], 0.0


def one(x):
    return torch.relu(net(x))


def two(x):
    return torch.relu(net(x))


def update(loss, opt=opt):
    opt.zero_grad()
    loss.backward()
    opt.step()


"""
"""Of every program; ``one`` and ``two`` make the same nodes."""
GRAPH_OF_BEFORE = "if i == LAST:\n    h = kept[0]\nkept[:] = [h]\n"
WRITTEN = "h = torch.sigmoid(h)\ny = h * h\nif i == LAST:\n    h.mul_(2)\nh = y\n"
LOSS = "update(head(h).square().mean())\n"
LOOPS = {
    "alike": (f"h = one(x)\n{GRAPH_OF_BEFORE}{LOSS}", 300),
    "early": (f"h = one(x)\n{GRAPH_OF_BEFORE}{LOSS}", 2),
    "same nodes in turn": (f"h = one(x) if i % 2 else two(x)\n{GRAPH_OF_BEFORE}{LOSS}", 301),
    "other function with the same nodes, once": (
        f"h = two(x) if i == LAST - 1 else one(x)\n{GRAPH_OF_BEFORE}{LOSS}",
        200,
    ),
    "random depth": (
        f"h = one(x)\nfor _ in range(random.randrange(4)):\n    h = torch.relu(other(h))\n{GRAPH_OF_BEFORE}{LOSS}",
        150,
    ),
    "curriculum": (f"h = one(x) if i < 100 else torch.tanh(two(x))\n{GRAPH_OF_BEFORE}{LOSS}", 104),
    "evaluation every 10 steps": (
        f"if i % 10 == 0:\n    with torch.no_grad():\n        one(x)\nh = two(x)\n{GRAPH_OF_BEFORE}{LOSS}",
        120,
    ),
    "accumulation": (
        f"h = one(x)\n{GRAPH_OF_BEFORE}head(h).square().mean().backward()\n"
        "if i % 4 == 3:\n    opt.step()\n    opt.zero_grad()\n",
        250,
    ),
    "two optimizers in turn": (
        f"if i % 2:\n    update(other(x).square().mean(), second)\n    continue\nh = one(x)\n{GRAPH_OF_BEFORE}{LOSS}",
        200,
    ),
    "early exits": (
        "if random.random() < 0.3 and i < LAST:\n    continue\n"
        f"h = one(x)\nkept += [h]\n{LOSS}if i == LAST:\n    update(kept[5].mean())\n",
        160,
    ),
    "written, and it deviates": (f"h = one(x)\n{WRITTEN}{LOSS}", 170),
    "no graph, and it deviates": (
        f"h = one(x)\nif i == LAST:\n    h = torch.tensor(h.tolist())\n    head.requires_grad_(False)\n{LOSS}",
        130,
    ),
    "an exception of another kind": (f"h = one(x)\n{LOSS}if i == LAST:\n    raise ValueError('no more data')\n", 130),
    "it goes on": (f"h = one(x)\n{LOSS}", 140),
    "it goes on, and gathers graphs": (
        "loss = head(one(x)).square().mean()\ntotal = total + loss\nupdate(loss)\n",
        110,
    ),
}


def program(body: str, last: int) -> str:
    loop = f"for i in range({last + 1}):\n    x = torch.randn(3, 4)\n{indent(body, '    ')}"
    return BEGIN + loop.replace("LAST", str(last))


def places(diagnosis: Diagnosis) -> tuple[object, ...]:
    return diagnosis.cause, diagnosis.confidence, [(s.role, s.file, s.line, s.column) for s in diagnosis.spans]


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a second run takes its time."""
    monkeypatch.setattr("graphdoc.probe.SHORTEST_LIMIT", 300.0)
    monkeypatch.setattr("graphdoc.probe.LONGEST_LIMIT", 300.0)


def told(folder: Path, source: str, mode: str, *, rerun: bool = True) -> Report:
    folder.mkdir()
    (folder / "train.py").write_text(source)
    return run(folder, mode=mode, rerun=rerun).report


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_cause_and_places_are_those_of_the_full_capture(name: str, tmp_path: Path) -> None:
    body, last = LOOPS[name]
    full = told(tmp_path / "full", program(body, last), "observe")
    learned = told(tmp_path / "learned", program(body, last), "observe:learned")
    assert (learned.outcome, learned.exception) == (full.outcome, full.exception)
    assert [places(d) for d in learned.diagnoses] == [places(d) for d in full.diagnoses]
    assert set(learned.notes) - {SEEN_AGAIN} == set(full.notes) or full.outcome != "other-failure"
    assert bool(full.diagnoses) is (name not in ("an exception of another kind", "it goes on"))
    assert (SEEN_AGAIN in learned.notes) is (full.outcome == "autograd-failure" and name != "early")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["same nodes in turn", "other function with the same nodes, once", "written, and it deviates"]
)
def test_without_a_second_run_no_line_that_made_the_graph_is_told(name: str, tmp_path: Path) -> None:
    body, last = LOOPS[name]
    source = program(body, last)
    report = told(tmp_path / "learned", source, "observe:learned", rerun=False)
    calls = [n for n, line in enumerate(source.splitlines(), 1) if "backward()" in line or "update(" in line]
    assert report.diagnoses
    for diagnosis in report.diagnoses:
        assert diagnosis.confidence != "certain"
        assert {s.line for s in diagnosis.spans} <= set(calls)
    assert [n for n in report.notes if "`graphdoc run --capture full` records them" in n]
