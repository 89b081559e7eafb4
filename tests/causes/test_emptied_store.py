"""A store is emptied only where nothing else empties it, and where what is old is not used on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import random
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
random.seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


class Memory:
    def __init__(self):
        self.log_probs, self.rewards = [], []

    def drop(self):
        pass


memory = Memory()


def play():
    for _ in range(4):
        dist = Categorical(logits=policy(torch.randn(3)))
        action = dist.sample()
        memory.log_probs.append(dist.log_prob(action))
        memory.rewards.append(float(action == 0))


def learn():
    loss = -(torch.stack(memory.log_probs) * torch.tensor(memory.rewards)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


"""
LOOP = """\
for episode in range(3):
    play()
    learn()
"""


def emptied(folder: Path, text: str) -> list[list[str]]:
    seen = observe(folder, text)
    assert seen.result.status == 1 and seen.found, seen.result.stderr
    return [
        [s.removesuffix(".clear()") for p in r.parts if (s := str(p["args"].get("statement"))).endswith(".clear()")]
        for f in seen.found
        for r in f.finding.remedies
    ]


def test_what_only_grows_is_emptied_first(tmp_path: Path) -> None:
    assert emptied(tmp_path, HEAD + LOOP)[0] == ["memory.log_probs", "memory.rewards"]


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    learn()\n", "    learn()\n    learn()\n    memory.drop()\n"),  # one rollout for two updates
        ("        pass\n", "        self.log_probs = []\n        self.rewards = []\n"),  # not called, but it is there
        ("        pass\n", "        self.log_probs.clear()\n"),
        ("        pass\n", "        del self.log_probs[:]\n"),
        (
            "torch.stack(memory.log_probs) * torch.tensor(memory.rewards)",
            "torch.stack(random.sample(memory.log_probs, 3))",
        ),
    ],
)
def test_what_is_used_again_or_emptied_elsewhere_is_left(old: str, new: str, tmp_path: Path) -> None:
    text = (HEAD + LOOP).replace(old, new)
    assert text != HEAD + LOOP
    assert not any(emptied(tmp_path, text))
