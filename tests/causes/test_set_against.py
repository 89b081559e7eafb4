"""What a loss only compares with what it computes anew is a number for it; whether it is to move along stays open."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(8, 3)
kept = net(x){made}
for rows in torch.arange(8).split(4):
    out = net(x[rows])
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DIVERGENCE = "nn.functional.kl_div(out.log_softmax(-1), kept[rows], reduction='batchmean')"


@pytest.mark.breadth(2)
@pytest.mark.parametrize(
    ("made", "loss", "slug", "moves"),
    [
        (".softmax(-1)", DIVERGENCE, "stored-with-graph", False),
        ("", "(out - kept[rows]).square().mean() + out.mean()", "stored-with-graph", True),
        ("", "(out * kept[rows]).square().mean() + out.mean()", "graph-built-once", None),
        ("", "out.square().mean() - kept[rows].mean()", "graph-built-once", None),
    ],
)
def test_what_is_only_compared_is_a_number(tmp_path: Path, made: str, loss: str, slug: str, moves: bool | None) -> None:
    seen = observe(tmp_path, HEAD.format(made=made, loss=loss))
    assert seen.slugs[0] == slug, seen.said
    remedies = seen.found[0].finding.remedies
    if moves is not None:
        assert ("to be a constant or to be computed again" in remedies[0].open) is moves
        assert "detach" in remedies[0].title


def test_a_reference_from_before_the_step_is_not_surely_to_learn(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn

torch.manual_seed(0)
body, policy, value = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)
opt = torch.optim.SGD([*body.parameters(), *policy.parameters(), *value.parameters()], lr=0.1)
kept = []


def act(x):
    h = body(x).tanh()
    kept.append((policy(h).log_softmax(-1)[0], value(h)))


def update(states):
    old = list(kept)
    first = sum((v - 1).pow(2).mean() - lp for lp, v in old)
    opt.zero_grad()
    first.backward(retain_graph=True)
    opt.step()
    kept.clear()
    for x in states:
        act(x)
    loss = 0
    for (lp, _), (lp_old, v) in zip(kept, old):
        loss = loss - (lp - lp_old).exp() * 0.5 + (v - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()


states = [torch.randn(3) for _ in range(3)]
for x in states:
    act(x)
update(states)
"""
    seen = observe(tmp_path, code)
    remedies = [r for f in seen.found for r in f.finding.remedies]
    clones = [r for r in remedies if "on clones of the parameters" in r.title]
    assert clones and all("compared with new values" in r.open for r in clones)


ROUNDS = """\
import torch
from torch import nn
torch.manual_seed(0)
policy, value = nn.Linear(3, 4), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], 0.1)
x = torch.randn(8, 3)


def scores(x):
    return policy(x).log_softmax(-1)[:, 0], value(x).squeeze(-1)


old, guess = scores(x)
returns = (1.0 - 0.1 * old).cumsum(0)
{advantage}
for _ in range(3):
    now, critic = scores(x)
    loss = -((now - old).exp() * advantage).mean() + (critic - returns).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_is_compared_weighs_and_is_aimed_at_is_all_of_the_old_pass(tmp_path: Path) -> None:
    code = ROUNDS.format(advantage="advantage = returns - guess")
    seen = observe(tmp_path / "sick", code)
    assert seen.slugs[0] == "stored-with-graph" and seen.found[0].finding.confidence == "likely"
    files = seen.patches()[0][1]
    assert "old = old.detach()" in files["train.py"]
    assert observe(tmp_path / "mended", files["train.py"]).mended


def test_what_only_weighs_may_be_meant_either_way(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(8, 3)
share = net(x).softmax(-1)
for _ in range(3):
    loss = -(share * net(x).log_softmax(-1).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    seen = observe(tmp_path, code)
    assert seen.slugs[0] == "graph-built-once" and seen.found[0].finding.confidence == "likely"
    assert all("no run tells" in r.open for r in seen.found[0].finding.remedies)


def test_terms_of_one_forward_are_no_references(tmp_path: Path) -> None:
    code = """\
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
first, second = (torch.optim.SGD(net.parameters(), lr) for lr in (0.1, 0.05))
for _ in range(3):
    x = torch.rand(5, 2, requires_grad=True)
    edge = net(torch.rand(5, 2)).square().mean()
    u = net(x)
    slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    bent = torch.autograd.grad(slope[:, 1].sum(), x, create_graph=True)[0]
    within = (slope[:, :1] + u * slope[:, 1:] - bent[:, 1:]).square().mean()
    first.zero_grad()
    second.zero_grad()
    edge.backward(retain_graph=True)
    first.step()
    within.backward(retain_graph=True)
    second.step()
"""
    seen = observe(tmp_path, code)
    assert seen.slugs[0] == "optimizer-step-before-backward"
    assert not any("earlier loss" in r.title or "compares it" in r.note for r in seen.found[0].finding.remedies)
