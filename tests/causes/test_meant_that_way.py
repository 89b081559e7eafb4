"""What looks like a fault and is meant: gradients for statistics, a norm that is measured, `.grad` kept to clear."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
"""
STATISTICS = """
from gathered import {name}
for _ in range(10):
    optimizer.zero_grad()
    net(torch.randn(8, 4)).square().mean().backward()
    {name}(net)
"""
GATHERED = """
found = {}

def squares(module):
    for name, p in module.named_parameters():
        found[name] = found.get(name, 0) + p.grad.square()

def count(module):
    return len(list(module.parameters()))
"""
ONLY_COUNTS = "\ndef count(module):\n    return len(list(module.parameters()))\n"


def test_gradients_that_another_module_takes_are_used(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + STATISTICS.format(name="squares"), gathered=GATHERED)
    assert (seen.result.status, seen.found) == (0, [])


def test_a_module_that_takes_none_changes_nothing(tmp_path: Path) -> None:
    seen = observe(tmp_path, HEAD + STATISTICS.format(name="count"), gathered=ONLY_COUNTS)
    assert seen.slugs == ["step-missing"]


CLIPPED = """
for _ in range(10):
    optimizer.zero_grad()
    ((net(torch.randn(8, 4)) - 9) ** 2).mean().backward()
    optimizer.step()
    {call}
"""


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("norm = nn.utils.clip_grad_norm_(net.parameters(), 1e9)", []),
        ("norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)", ["clipping-without-effect"]),
        ("nn.utils.clip_grad_norm_(net.parameters(), 1e9)", ["clipping-without-effect"]),
    ],
)
def test_a_bound_out_of_reach_behind_the_step_measures(call: str, told: list[str], tmp_path: Path) -> None:
    assert observe(tmp_path, HEAD + CLIPPED.format(call=call)).slugs == told


KEPT = """
parameters = list(net.parameters())
net(torch.randn(8, 4)).square().mean().backward()
kept = [p.grad for p in parameters]
for _ in range(6):
    {clear}
    net(torch.randn(8, 4)).square().mean().backward()
    with torch.no_grad():
        for p, g in zip(parameters, kept):
            p -= 0.01 * g
"""


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("clear", "told"),
    [
        ("for g in kept: g.zero_()", []),
        ("for p in parameters: p.grad.zero_()", ["grad-aliased"]),
        ("torch._foreach_zero_(kept)", []),
        ("[kept[i].zero_() for i in range(2)]", []),
    ],
)
def test_what_is_cleared_through_the_name_is_known_to_be_the_gradient(
    clear: str, told: list[str], tmp_path: Path
) -> None:
    assert observe(tmp_path, HEAD + KEPT.format(clear=clear)).slugs == told


def test_losses_that_were_differentiated_one_by_one_are_not_differentiated_in_sum(tmp_path: Path) -> None:
    code = """
losses = [net(torch.randn(5, 4)).square().mean() for _ in range(3)]
for part in losses:
    part.backward()
total = sum(losses)
total.backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs == ["repeated-backward"]
    assert "certain" not in seen.found[0].finding.confidence
    kind, texts = seen.patches()[0]
    assert kind == "delete_statement"
    assert "total.backward()" not in texts["train.py"]


def test_of_two_cuts_the_one_in_front_of_what_is_trained_is_told(tmp_path: Path) -> None:
    """A number taken from a value network that no optimizer holds is a baseline, whatever the policy lost."""
    code = """
value = nn.Linear(4, 1)
with torch.no_grad():
    chosen = net(torch.randn(3, 4))
baseline = torch.tensor([value(torch.randn(4)).item() for _ in range(3)])
(chosen.squeeze(-1) * (1 - baseline)).mean().backward()
"""
    seen = observe(tmp_path, HEAD + code)
    assert seen.slugs[0] == "cut-by-no-grad"
    assert seen.lines("cause")[0] == "with torch.no_grad():"


WARMUP = """
actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for update in range(6):
    s, a = torch.randn(8, 4), torch.randn(8, 2)
    q_loss = (critic(torch.cat([s, a], 1)) - s.sum(1, keepdim=True)).pow(2).mean()
    critic_opt.zero_grad()
    q_loss.backward()
    critic_opt.step()
    pi_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    actor_opt.zero_grad()
    pi_loss.backward()
    if update >= 50:
        actor_opt.step()
"""


def test_a_step_that_waits_for_its_condition_is_told_and_not_added(tmp_path: Path) -> None:
    """Whether it is due yet, a run that ends before does not tell."""
    seen = observe(tmp_path, HEAD + WARMUP)
    assert seen.slugs == ["step-missing"]
    finding = seen.found[0].finding
    assert finding.confidence == "possible" and not finding.remedies
    assert "actor_opt.step()" in seen.lines("related")
    assert "follows" not in seen.said
