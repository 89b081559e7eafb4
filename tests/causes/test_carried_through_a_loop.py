"""A state whose parts a loop goes through is carried by its own name; the detach that ran is the one that is told."""

from __future__ import annotations

from pathlib import Path

from seen import observe

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
cell, out = nn.LSTM(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.1)


def model(x, state):
    y, state = cell(x, state)
    return out(y), state


def train(rounds):
    state = None
    for _ in range(rounds):
        if state is not None:
            if not isinstance(state, tuple):
                state.detach()
            else:
                for s in state:
                    s.detach()
        y, state = model(torch.randn(2, 5, 3), state)
        opt.zero_grad()
        y.pow(2).mean().backward()
        opt.step()


train(3)
print("done")
"""


def test_the_name_is_that_of_the_state(tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", PROGRAM)
    assert seen.slugs == ["carried-state"]
    assert "`state` carries the last iteration's graph" in seen.said
    assert seen.lines("cause")[0] == "s.detach()"
    texts = [t["train.py"] for _, t in seen.patches()]
    assert "state = tuple(t.detach() for t in state)" in texts[0] and "s = s.detach()" not in texts[0]
    assert observe(tmp_path / "again", texts[0]).result.stdout == "done\n"
