"""A function that writes what has a graph into what it was given: the data keeps its numbers, and is not detached."""

from __future__ import annotations

from pathlib import Path

from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def moved(places):
    shift = net(places.mean(0, keepdim=True)).tanh()
    places += shift
    return places


def epoch(data):
    start, goal = data
    {call}
    loss = (end * end.detach() - goal).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


data = torch.zeros(4, 3), torch.ones(4, 3)
for _ in range(3):
    epoch(data)
print("done")
"""


def test_the_write_is_told_and_made_out_of_place(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", PROGRAM.format(call="end = moved(start)"))
    assert seen.slugs[0] == "carried-state"
    assert seen.lines("cause") == ["places += shift"]
    assert "kept here with its graph" not in seen.said
    kind, texts = seen.patches()[0]
    assert kind == "out_of_place"
    assert "places = places + shift" in texts["train.py"]
    assert observe(tmp_path / "again", texts["train.py"]).result.stdout == "done\n"


def test_a_caller_that_drops_what_comes_back_wants_the_write(tmp_path: Path) -> None:
    seen = observe(tmp_path, PROGRAM.format(call="moved(start)\n    end = start"))
    assert not any(kind == "out_of_place" for kind, _ in seen.patches())
