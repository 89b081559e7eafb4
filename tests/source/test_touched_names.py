"""What may touch a network: by its name, in a function that is called, or by a call that cannot be looked at."""

from __future__ import annotations

import ast

import pytest

from graphdoc.source.effects import Touching

PROGRAM = """
import torch
from torch.nn import functional as F

class Model:
    def __init__(self):
        self.criterion, self.other = torch.nn.MSELoss(), torch.nn.Linear(2, 2)

    def loss(self, real, fake):
        return self.criterion(self.other(real), fake) + F.softplus(fake).mean()

    def follow(self):
        for p, q in zip(self.critic.parameters(), self.slow.parameters()):
            q.data = p.data

    def clip(self):
        return torch.nn.utils.clip_grad_norm_(self.other.parameters(), 1.0)

    def freeze(self, learns):
        for p in self.critic.parameters():
            p.requires_grad = learns
"""


@pytest.mark.parametrize(
    ("line", "touches"),
    [
        ("self.out = self.loss(x, self.fake)", False),
        ("self.opt_other.zero_grad()", False),
        ("loss.backward()", False),
        ("self.pool = self.images.query(fake)", False),
        ("self.freeze(True)", False),
        ("self.rate = float(self.critic(x).std())", True),
        ("self.count = self.follow()", True),
        ("self.norm = self.clip()", True),
        ("if self.due(): pass", True),
        ("self.scheduler.step()", True),
        ("self.other.zero_grad()", False),
        ("self.critic.zero_grad()", True),
        ("self.zero_grad()", True),
        ("log(self)", True),
        ("self.best = copy.deepcopy(self.critic.state_dict())", True),
    ],
)
def test_what_may_touch_a_network(line: str, touches: bool) -> None:
    touching = Touching([ast.parse(PROGRAM)], {"critic", "weight"}, {"opt_other"})
    assert (touching.first(ast.parse(line).body[0]) is not None) is touches
