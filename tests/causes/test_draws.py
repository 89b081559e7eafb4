"""A random draw on the loss's way: which patches are offered, by distribution and by what the loss does with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

START = """\
import torch
from torch import distributions as D
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
x = torch.randn(6, 4)
table = torch.randn(4)
"""

TABLE = "reward = table[action]\nloss = -reward.mean()\nloss.backward()\n"
SHOT = "reward = -(action - 1).abs().sum(-1)\n"


def offered(tmp_path: Path, code: str) -> dict[str, str]:
    seen = observe(tmp_path, START + code)
    assert seen.slugs[0] == "nondifferentiable-op"
    return {kind: text for kind, texts in seen.patches() for text in texts.values()}


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "kinds", "line"),
    [
        (
            "dist = D.Categorical(logits=net(x))\naction = dist.sample()\n" + TABLE,
            ["log_prob_surrogate"],
            "loss = -(dist.log_prob(action) * reward).mean()",
        ),
        (
            "action = D.Categorical(logits=net(x)).sample()\n" + TABLE,
            ["log_prob_surrogate"],
            "dist = D.Categorical(logits=net(x))\naction = dist.sample()",
        ),
        (
            "rewards = []\nfor row in x:\n    dist = D.Categorical(logits=net(row))\n    action = dist.sample()\n"
            "    rewards.append(1.0 if action.item() > 1 else -1.0)\n"
            "(torch.tensor(rewards) - 0.5).sum().neg().backward()\n",
            ["log_prob_surrogate"],
            "(torch.stack(log_probs) * (torch.tensor(rewards) - 0.5)).sum().neg().backward()",
        ),
        (
            "dist = D.Normal(net(x), 1.0)\naction = dist.sample()\n"
            "def shot(a):\n    return -(a - 1).abs().sum(-1)\nreward = shot(action)\n(-reward).mean().backward()\n",
            ["rsample", "log_prob_surrogate"],
            "action = dist.rsample()",
        ),
        (
            "dist = D.Normal(net(x), 1.0)\naction = dist.sample()\n"
            "def shot(a):\n    return -(a - 1).abs().sum(-1)\nreward = shot(action)\n(-reward).mean().backward()\n",
            ["rsample", "log_prob_surrogate"],
            "(dist.log_prob(action) * -reward).mean().backward()",
        ),
        (
            "dist = D.Normal(net(x), 1.0)\naction = dist.sample()\n"
            "def shot(a):\n    return -(a - 1).abs().sum(-1)\nreward = shot(action)\n"
            "loss = -reward.mean()\nloss.backward()\n",
            ["rsample", "log_prob_surrogate"],
            "loss = -(dist.log_prob(action).sum(-1) * reward).mean()",
        ),
        (
            "dist = D.Independent(D.Normal(net(x), 1.0), 1)\naction = dist.sample()\n"
            "def shot(a):\n    return -(a - 1).abs().sum(-1)\nreward = shot(action)\n"
            "loss = -reward.mean()\nloss.backward()\n",
            ["rsample", "log_prob_surrogate"],
            "loss = -(dist.log_prob(action) * reward).mean()",
        ),
        (
            "dist = D.MixtureSameFamily(D.Categorical(torch.ones(6, 4)), D.Normal(net(x), 1.0))\n"
            "action = dist.sample()\n"
            "def shot(a):\n    return -(a - 1).abs()\nreward = shot(action)\nloss = -reward.mean()\nloss.backward()\n",
            ["log_prob_surrogate"],
            "loss = -(dist.log_prob(action) * reward).mean()",
        ),
    ],
    ids=["named", "unnamed", "in-a-loop", "normal", "in-place-of-it", "summed", "independent", "mixture"],
)
def test_what_is_offered_for_a_draw(tmp_path: Path, code: str, kinds: list[str], line: str) -> None:
    got = offered(tmp_path, code)
    assert list(got) == kinds
    assert any(line in text for text in got.values()), got


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    "code",
    [
        # The number of an action is no reward: weighing it would train for nonsense.
        "dist = D.Categorical(logits=net(x))\naction = dist.sample()\nloss = (action.float() * table[0]).mean()\n"
        "loss.backward()\n",
        "def act(x):\n    dist = D.Categorical(logits=net(x))\n    action = dist.sample()\n    return action\n"
        "action = act(x)\n" + TABLE,
        "action = torch.multinomial(net(x).softmax(-1), 1)\n" + TABLE,
        "dist = D.Categorical(logits=net(x))\naction = dist.sample()\nreward = table[action]\n"
        "loss = reward.mean() + reward.pow(2).mean()\nloss.backward()\n",
    ],
    ids=["the-action-itself", "another-function", "no-distribution", "two-terms"],
)
def test_no_patch_where_it_would_be_a_guess(tmp_path: Path, code: str) -> None:
    assert offered(tmp_path, code) == {}
