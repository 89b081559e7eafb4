"""A value that one loss fits and another weighs its own terms by, and shared parts that look like it and are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
"""
APART = """
opts = [torch.optim.SGD(actor.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)]
"""
TOGETHER = """
opts = [torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)]
"""
LEARN = """
def learn(s, returns):
    dist = torch.distributions.Categorical(logits=actor(s))
    value = critic(s).squeeze(-1)
    advantage = returns - value
    {more}
    ratio = (dist.log_prob(dist.sample()) - 0.1).exp()
    policy = -torch.min(ratio * weight, ratio.clamp(0.8, 1.2) * weight).mean() - 0.1 * dist.entropy().mean()
    fit = nn.functional.mse_loss(value, returns)
    for opt in opts:
        opt.zero_grad()
    {first}.backward()
    {second}.backward()
    for opt in opts:
        opt.step()


for _ in range(3):
    learn(torch.randn(5, 4), torch.rand(5))
"""
PLAIN = "weight = advantage"
NORMED = "weight = (advantage - advantage.mean()) / (advantage.std() + 1e-8)"
# What is added to a loss is a part of what it is to make small.
ADDED = "weight = 1.0\n    ratio_too = advantage.square().mean()"


def program(more: str = PLAIN, first: str = "policy", second: str = "fit") -> str:
    return LEARN.format(more=more, first=first, second=second)


@pytest.mark.breadth(1)
@pytest.mark.parametrize("more", [PLAIN, NORMED])
@pytest.mark.parametrize(("first", "second"), [("policy", "fit"), ("fit", "policy")])
def test_what_a_loss_weighs_its_own_terms_by_is_a_constant_to_it(
    more: str, first: str, second: str, tmp_path: Path
) -> None:
    seen = observe(tmp_path / "sick", HEAD + APART + program(more, first, second))
    assert seen.slugs[0] == "undetached-target"
    finding = seen.found[0].finding
    assert finding.confidence == "likely" and "as a factor only" in finding.because
    loss = "the earlier loss" if first == "policy" else "this loss"
    assert finding.remedies[0].title.endswith(f"where {loss} uses it")
    cut, merged = seen.patches()[0][1]["train.py"], seen.patches()[-1]
    assert ".detach()" in cut and observe(tmp_path / "mended", cut).mended
    # Both may be meant after all: then the sum is what the two calls were to give.
    assert merged[0] == "merge_backward" and finding.remedies[-1].safety == "unsafe"


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "code",
    [
        TOGETHER + program(),
        APART + program(ADDED, "(policy + ratio_too)"),
        APART + program("weight = 1.0 / (1.0 + advantage.square())", "(policy + weight.mean())"),
    ],
    ids=["one-optimizer", "added", "weight-and-term"],
)
def test_what_is_more_than_a_weight_learns_from_both(code: str, tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "shared-subgraph-losses"
    assert seen.patches()[0][0] == "merge_backward"


def test_a_code_that_the_other_network_decodes_is_no_weight(tmp_path: Path) -> None:
    code = """
for _ in range(3):
    x = torch.randn(5, 4)
    code = critic(x)
    rebuilt = nn.functional.mse_loss(actor(code.expand(5, 4) + 0.0), x[:, :2])
    small = code.square().mean()
    for opt in opts:
        opt.zero_grad()
    rebuilt.backward()
    small.backward()
    for opt in opts:
        opt.step()
"""
    seen = observe(tmp_path, HEAD + APART + code)
    assert seen.slugs[0] == "shared-subgraph-losses"
    assert seen.patches()[0][0] == "merge_backward"
