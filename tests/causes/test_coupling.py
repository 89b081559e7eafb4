"""Two networks whose losses aim at each other's output, and losses that rightly train what they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import Seen, observe

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
one = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
two = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
y = torch.tensor([0, 1, 2, 3, 0])


"""
APART = """
opts = [torch.optim.SGD(one.parameters(), lr=0.1), torch.optim.SGD(two.parameters(), lr=0.1)]
"""
TOGETHER = """
opts = [torch.optim.SGD([*one.parameters(), *two.parameters()], lr=0.1)]
"""

MUTUAL = """
for _ in range(2):
    a, b = one(torch.randn(5, 3)), two(torch.randn(5, 3))
    log_a, log_b = F.log_softmax(a, 1), F.log_softmax(b, 1)
    goal_a, goal_b = F.softmax(b, 1), F.softmax(a, 1)
    loss_a = F.cross_entropy(a, y) + F.kl_div(log_a, goal_a, reduction="batchmean")
    loss_b = F.cross_entropy(b, y) + F.kl_div(log_b, target=goal_b, reduction="batchmean")
    for opt in opts:
        opt.zero_grad()
    loss_a.backward()
    loss_b.backward()
    for opt in opts:
        opt.step()
"""
# The second network also learns to do as the first one; the first one has its own loss only.
FOLLOWER = """
class Follow:
    def __init__(self):
        self.distance = nn.MSELoss()

    def losses(self, x):
        lead, follow = one(x), two(x)
        return F.cross_entropy(lead, y), self.distance(follow, self.soft(lead))

    def soft(self, z):
        return z.softmax(1)


follow = Follow()
for _ in range(2):
    first, second = follow.losses(torch.randn(5, 3))
    for opt in opts:
        opt.zero_grad()
    first.backward()
    second.backward()
    for opt in opts:
        opt.step()
"""
LEADER_SECOND = FOLLOWER.replace(
    "    first.backward()\n    second.backward()\n", "    second.backward()\n    first.backward()\n"
)
# Both losses are distances to data; what they share is meant to learn from both.
ENCODED = """
extra = nn.Linear(4, 4)
opts.append(torch.optim.SGD(extra.parameters(), lr=0.1))
for _ in range(2):
    z = one(torch.randn(5, 3)).tanh()
    losses = [F.mse_loss(extra(z), torch.randn(5, 4)), F.cross_entropy(two[2](F.pad(z, (0, 1))), y)]
    for opt in opts:
        opt.zero_grad()
    for loss in losses:
        loss.backward()
    for opt in opts:
        opt.step()
"""


def changed(seen: Seen) -> list[str]:
    """The lines that the first fix of the first finding brings."""
    assert seen.evidence is not None
    old = seen.evidence.sources["train.py"].splitlines()
    return [line.strip() for line in seen.patches()[0][1]["train.py"].splitlines() if line not in old]


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "confidence", "lines"),
    [
        (
            MUTUAL,
            "certain",
            [
                'loss_a = F.cross_entropy(a, y) + F.kl_div(log_a, goal_a.detach(), reduction="batchmean")',
                'loss_b = F.cross_entropy(b, y) + F.kl_div(log_b, target=goal_b.detach(), reduction="batchmean")',
            ],
        ),
        (
            FOLLOWER,
            "likely",
            ["return F.cross_entropy(lead, y), self.distance(follow, self.soft(lead).detach())"],
        ),
        (
            LEADER_SECOND,
            "likely",
            ["return F.cross_entropy(lead, y), self.distance(follow, self.soft(lead).detach())"],
        ),
    ],
    ids=["mutual", "follower", "leader-second"],
)
def test_what_a_loss_only_aims_at_is_a_constant_for_it(
    code: str, confidence: str, lines: list[str], tmp_path: Path
) -> None:
    seen = observe(tmp_path / "sick", HEAD + APART + code)
    assert seen.slugs[0] == "undetached-target"
    finding = seen.found[0].finding
    assert finding.confidence == confidence
    assert changed(seen) == lines
    assert 1 <= sum(s.role == "cause" for s in finding.spans) <= 3
    assert all(r.safety == "unsafe" for r in finding.remedies)
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "code",
    [TOGETHER + MUTUAL, APART + ENCODED],
    ids=["one-optimizer", "encoded"],
)
def test_losses_that_may_train_what_they_share_are_added(code: str, tmp_path: Path) -> None:
    seen = observe(tmp_path / "sick", HEAD + code)
    assert seen.slugs[0] == "shared-subgraph-losses"
    assert seen.patches()[0][0] == "merge_backward"
    assert observe(tmp_path / "mended", seen.patches()[0][1]["train.py"]).mended
