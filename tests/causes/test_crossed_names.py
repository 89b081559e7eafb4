"""A function that calls its arguments by each other's names: a value is cut by the name that it has where it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

AGENTS = """
import torch
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.critic = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=0.01)

    def learn(self, {first}, {second}):
        loss = -self.critic(torch.cat([{first}["action"], {second}["action"]], 1)).mean()
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()


one, two = Agent(), Agent()


def update(x):
    mine = {{"action": torch.tanh(one.actor(x)) ** 2}}
    other = {{"action": torch.tanh(two.actor(x)) ** 2}}
    one.learn(mine, other)
    two.learn(other, mine)


for step in range(3):
    update(torch.randn(5, 3))
"""


@pytest.mark.breadth(1)
@pytest.mark.parametrize(("first", "second"), [("mine", "other"), ("own", "theirs")])
def test_what_is_cut_goes_by_its_name_there(first: str, second: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, AGENTS.format(first=first, second=second))
    assert seen.found
    texts = [text for _, new in seen.patches() for text in new.values()]
    assert any("two.learn(other, {k: v.detach() for k, v in mine.items()})" in t for t in texts), texts
    assert not any("two.learn({k: v.detach() for k, v in other.items()}, mine)" in t for t in texts)
